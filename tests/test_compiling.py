"""What is told while kernels are compiled."""

import logging

from numba import njit

from ordbm.runtime.compiling import COMPILING, compilation_shown
from ordbm.runtime.progress import Progress


def test_compiling_is_told_once_and_only_when_it_happens(caplog):
    caplog.set_level(logging.INFO, "ordbm")
    one, two = (njit(lambda x, amount=amount: x + amount) for amount in (1, 2))
    told = []
    with compilation_shown(told.append):
        assert not told
        assert (one(1), two(1), one(2)) == (2, 3, 3)
    assert told == [Progress("compiling", 0.0)]
    assert [record.getMessage() for record in caplog.records] == [COMPILING]
    with compilation_shown(told.append):
        one(3)  # known by now
    njit(lambda x: x)(1)  # nobody asked
    assert len(told) == 1


def test_without_callbacks_there_is_the_record_alone(caplog):
    caplog.set_level(logging.INFO, "ordbm")
    with compilation_shown(None):
        njit(lambda x: -x)(1)
    assert [record.getMessage() for record in caplog.records] == [COMPILING]
