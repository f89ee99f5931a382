"""The README keeps its word: its Python runs and its make targets exist."""

import re

import pandas as pd
import pytest

from conftest import ROOT
from ordbm import settings

README = (ROOT / "README.md").read_text(encoding="utf-8")
SMALL = {"epochs": 2, "hidden": 8, "item_links": 20}


def python_blocks():
    """Each block of Python, moved down so that an error names its line in the README."""
    for block in re.finditer(r"^```python\n(.*?)^```$", README, re.DOTALL | re.MULTILINE):
        yield "\n" * README.count("\n", 0, block.start(1)) + block[1]


def what_readers_bring():
    """Stand-ins for the data of one's own that the README speaks of."""
    users, items = [1, 1], [31, 1029]
    return {
        "users": users,
        "items": items,
        "values": [4, 2],
        "answers": ["good", "poor"],
        "seconds": [5, 100],
        "frame": pd.DataFrame({"customer": users, "film": items, "stars": [4, 2]}),
    }


@pytest.mark.slow
def test_python_blocks_run_from_top_to_bottom(monkeypatch, tmp_path):
    monkeypatch.setitem(settings.PRESETS, "default", SMALL)
    monkeypatch.chdir(tmp_path)
    names = what_readers_bring()
    blocks = list(python_blocks())
    assert blocks
    for block in blocks:
        exec(compile(block, "README.md", "exec"), names)
    assert names["model"].settings.epochs == SMALL["epochs"]


def test_make_targets_exist():
    named = set(re.findall(r"(?:^|`)make ([a-z][a-z-]*)", README, re.MULTILINE))
    targets = set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert named
    assert named <= targets
