"""A model in MLflow's `pyfunc` flavour: our own file and this module to load it, no pickle.

MLflow is asked for by `save_model` and `log_model` alone; loading needs nothing but ordbm.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ordbm.errors import SettingsError
from ordbm.estimator import OrdinalBM, load
from ordbm.integrations.pairs import pair_columns

MODEL_FILE = "model.ordbm"


class PairPredictor:
    """What MLflow calls: a frame with users and items in, a frame of predictions out."""

    def __init__(self, model: OrdinalBM) -> None:
        self.model = model

    def predict(self, model_input: Any, params: Mapping[str, Any] | None = None) -> Any:
        """As `predict_table`: a row per pair with mean, median, mode, confidence and more.

        `params` may have `method`, and `user` and `item`: the columns, if their names do not tell.
        """
        told = dict(params or {})
        pairs = pair_columns(model_input, told.pop("user", None), told.pop("item", None))
        return self.model.predict_table(*pairs, backend="pandas", **told)


def _load_pyfunc(path: str | os.PathLike[str]) -> PairPredictor:
    """What `mlflow.pyfunc.load_model` gives out; `path` is the model file, or its folder."""
    found = Path(path)
    return PairPredictor(load(found / MODEL_FILE if found.is_dir() else found))


def save_model(model: OrdinalBM, path: str | os.PathLike[str], **details: Any) -> None:
    """Write a fitted model to a folder that `mlflow.pyfunc.load_model(path)` reads.

    `details` go to `mlflow.pyfunc.save_model`: `signature`, `pip_requirements`, `metadata`...
    """
    with tempfile.TemporaryDirectory() as folder:
        _pyfunc().save_model(path, **_parts(model, folder), **details)


def log_model(model: OrdinalBM, name: str, **details: Any) -> Any:
    """The same, as an artifact of the current run; what `mlflow.pyfunc.log_model` returns."""
    with tempfile.TemporaryDirectory() as folder:
        return _pyfunc().log_model(name, **_parts(model, folder), **details)


def _parts(model: OrdinalBM, folder: str) -> dict[str, Any]:
    file = Path(folder) / MODEL_FILE
    model.save(file)
    return {"loader_module": __name__, "data_path": str(file)}


def _pyfunc() -> Any:
    try:
        import mlflow.pyfunc  # noqa: PLC0415
    except ImportError:
        raise SettingsError("this needs MLflow: pip install mlflow") from None
    return mlflow.pyfunc
