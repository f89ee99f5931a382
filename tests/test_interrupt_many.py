"""Commands that are interrupted and killed in many phases of their work (`make interruptions`)."""

import importlib.util
import signal
import sys
from collections import Counter
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[1] / "tools" / "interrupt_many.py"


@pytest.fixture(scope="module")
def tool():
    spec = importlib.util.spec_from_file_location("interrupt_many", TOOL)
    module = sys.modules["interrupt_many"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    del sys.modules["interrupt_many"]


def test_nothing_is_lost_and_nothing_half_written_remains(tool):
    found = tool.outcomes(6, 4, seed=5)
    assert Counter(one.signal for one in found) == {signal.SIGINT: 6, signal.SIGKILL: 4}
    assert not tool.faults(found)


MARKS = [
    (0, "start"),
    (10, "command"),
    (20, "reading"),
    (30, "command"),
    (90, "start"),
    (99, "end"),
]


@pytest.mark.parametrize(
    ("sent", "noted", "code", "errors", "verdict"),
    [
        (25, 25, 130, "ordbm: interrupted\n", "heard"),
        (25, 25, 0, "interrupted: this is the model of the epochs so far", "kept"),
        (25, 25, 0, "", "lost"),
        (25, None, 0, "", "lost"),
        (25, 25, 130, "Traceback ...", "wrong"),
        (25, 25, 2, "ordbm: another error\n", "wrong"),
        (99, None, 0, "", "after the end"),
        (99, None, -2, "", "after the end"),
    ],
)
def test_the_tool_would_notice(tool, sent, noted, code, errors, verdict):
    marks = sorted(MARKS + ([(noted, "noted")] if noted else []))
    assert tool._verdict(signal.SIGINT, code, errors, sent, marks).split(":")[0] == verdict
