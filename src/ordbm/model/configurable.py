"""Settings that can be read, changed and copied, by scikit-learn's conventions."""

from __future__ import annotations

import inspect
from typing import Any, Self

from ordbm.errors import SettingsError
from ordbm.runtime.printable import shown


class Configured:
    """A model that keeps in `_params` what its constructor was told, argument by argument."""

    _params: dict[str, Any]

    def get_params(self, deep: bool = True) -> dict[str, Any]:  # noqa: ARG002
        """What the constructor was told; None where a default serves."""
        return dict(self._params)

    def set_params(self, **told: Any) -> Self:
        """Change what the constructor was told. What was learnt before is forgotten.

        A value that is refused changes nothing.
        """
        known = inspect.signature(type(self)).parameters
        unknown = sorted(set(told) - set(known))
        if unknown:
            raise SettingsError(
                f"unknown setting {shown(unknown[0])} of {type(self).__name__}: use one of "
                f"{', '.join(known) or 'none'}"
            )
        if told:
            changed = type(self)(**{**self._params, **told})
            vars(self).clear()
            vars(self).update(vars(changed))
        return self

    def clone(self) -> Self:
        """A new model with the same settings that has learnt nothing."""
        return type(self)(**self._params)
