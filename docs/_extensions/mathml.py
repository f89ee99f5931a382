"""Formulas as MathML, which browsers show by themselves: no script, no font, no network."""

from __future__ import annotations

import html
from typing import Any

from docutils import nodes
from docutils.utils.math import latex2mathml
from sphinx.util import logging

log = logging.getLogger(__name__)


def setup(app: Any) -> dict[str, bool]:
    """Offer `html_math_renderer = "mathml"`."""
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _inline(translator: Any, node: nodes.math) -> None:
    translator.body.append(_mathml(node, as_block=False))
    raise nodes.SkipNode


def _block(translator: Any, node: nodes.math_block) -> None:
    translator.body.append(_mathml(node, as_block=True) + "\n")
    raise nodes.SkipNode


def _mathml(node: nodes.Element, *, as_block: bool) -> str:
    tex = node.astext()
    try:
        return latex2mathml.tex2mathml(tex, as_block=as_block)
    except latex2mathml.MathError as error:
        log.warning("a formula cannot be shown: %s in %r", error, tex, location=node)
        return f"<code>{html.escape(tex)}</code>"
