"""Which tests run which lines, and a run of some of them in order: plugins for pytest.

Loaded as `-p mutant_tests`, it writes, for each test file, what each of its tests took and which
lines of the package it ran. What a fixture of a wider scope runs belongs to all tests that use it.
Compiled code runs unseen: `mutants` finds those of a kernel by who calls it.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections import defaultdict
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

import pytest

WAITS = 20  # times as long by the clock as by computing: the computer may be busy


class Traced:
    """Records lines and seconds by test, and writes them by test file into a folder."""

    def __init__(self, root: Path, folder: Path) -> None:
        from coverage import Coverage  # noqa: PLC0415

        self.root, self.folder = root, folder
        self.coverage = Coverage(
            data_file=None, source=[str(root / "src" / "ordbm")], config_file=False
        )
        self.seconds: dict[str, float] = defaultdict(float)
        self.fixtures: dict[str, set[str]] = defaultdict(set)  # of each test
        self.failed: set[str] = set()  # without a fault: they could tell nothing of one
        self.coverage.start()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: Any) -> Generator[None, object, object]:
        self.coverage.switch_context(item.nodeid)
        self.fixtures[item.nodeid] = set(item.fixturenames)
        begin = time.perf_counter()
        try:
            return (yield)
        finally:
            self.seconds[item.nodeid] += time.perf_counter() - begin
            self.coverage.switch_context("")

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self.failed.add(report.nodeid)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(
        self, fixturedef: Any, request: Any
    ) -> Generator[None, object, object]:
        if fixturedef.scope == "function":
            return (yield)
        self.coverage.switch_context(f"{fixturedef.baseid}@{fixturedef.argname}")
        try:
            return (yield)
        finally:
            self.coverage.switch_context(request._pyfuncitem.nodeid)

    def pytest_sessionfinish(self) -> None:
        self.coverage.stop()
        data = self.coverage.get_data()
        ran: dict[str, dict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
        for path in data.measured_files():
            file = str(Path(path).relative_to(self.root))
            for line, contexts in data.contexts_by_lineno(path).items():
                for context in contexts:
                    ran[context][file].add(line)
        of_file: dict[str, dict[str, Any]] = defaultdict(dict)
        for test, seconds in self.seconds.items():
            test_file = test.partition("::")[0]
            told = of_file[test_file]
            if test in self.failed:
                continue
            lines = ran[test]
            for fixture in self.fixtures[test]:
                for base in (test_file, ""):
                    for file, more in ran.get(f"{base}@{fixture}", {}).items():
                        lines[file] |= more
            told[test] = {
                "seconds": round(seconds, 4),
                "lines": {file: sorted(numbers) for file, numbers in lines.items()},
            }
        for test_file, tests in of_file.items():
            target = self.folder / f"{Path(test_file).stem}.json"
            target.write_text(json.dumps(tests))


class Chosen:
    """Runs these tests only, in this order, and says which is running and which failed first."""

    def __init__(self, tests: Sequence[str], said: Path, limits: dict[str, float]) -> None:
        self.place = {test: place for place, test in enumerate(tests)}
        self.said = said
        self.limits = limits  # seconds of computing that each test may take
        self.failed: str | None = None
        self.passed: list[str] = []

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        items[:] = [item for item in items if item.nodeid in self.place]
        items.sort(key=lambda item: self.place[item.nodeid])
        for item in items:
            waits = WAITS * self.limits[item.nodeid]
            item.add_marker(pytest.mark.timeout(waits, method="thread"))

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.said.write_text(nodeid)
        signal.setitimer(signal.ITIMER_PROF, self.limits[nodeid])  # which ends the process

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed and self.failed is None:
            self.failed = report.nodeid
        elif report.when == "call":
            self.passed.append(report.nodeid)

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed and self.failed is None:
            self.failed = report.nodeid


def pytest_configure(config: Any) -> None:
    """Trace, in a process that runs tests, if a folder is named."""
    folder = os.environ.get("MUTANTS_TRACE")
    if folder and not (
        config.getoption("numprocesses", None) and not hasattr(config, "workerinput")
    ):
        config.pluginmanager.register(Traced(Path(config.rootpath), Path(folder)))
