"""Do the tests notice? Puts small faults into the package, one at a time, and runs the tests.

    mutants.py             try every fault that has no outcome yet, and write the page
    mutants.py --list      show the faults and their outcomes
    mutants.py --only X    those whose file, function, line or key contains X
    mutants.py --again     those that survived, and with --only all of them, once more
    mutants.py --enough S  show each to tests worth S seconds at most: fewer for a first look
    mutants.py --workers N so many at a time

Faults are drawn by a seed from every folder of the package (`mutant_choice`), made on the syntax
tree (`mutant_operators`). First each test file is run once to see which lines its tests run; a
fault is then shown to the tests that run its line, the quickest first, until one fails. Everything
happens in copies of the tree below build/mutants, where outcomes.jsonl is appended to: a run that
was broken off goes on where it was.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import os
import resource
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from mutant_choice import ENOUGH, Chooser, chosen, is_compiled
from mutant_operators import Mutant
from mutant_page import write_page
from mutant_tests import WAITS, Chosen

ROOT = Path(__file__).resolve().parents[1]
PLACE = ROOT / "build" / "mutants"
OUTCOMES = PLACE / "outcomes.jsonl"
WORKERS = 2  # by default
# They look at the tree or at pages as a whole, start a Python for each question, or are about
# folders that no fault is put into.
UNUSED = (
    "docs", "names", "packaging", "processors", "import", "report", "plots",
    "reproduction_reasons", "demo", "interrupt_many",
)  # fmt: skip
# Imported once, by the process that every run is forked from.
WARM = ("numpy", "scipy.sparse", "scipy.optimize", "scipy.special", "numba", "hypothesis", "pytest",
        "xdist", "pytest_timeout", "rich.console", "typer.testing",
        "coverage", "pandas", "sklearn.metrics", "scipy.stats", "scoringrules",
        "pytrec_eval")  # fmt: skip
NOTICED = 6  # tests that caught the last faults in a file are run first
MEMORY = 8 << 30  # bytes of address space of a run
HANGS = 60  # seconds of computing, and 20 times what the test takes: only a hang needs so long


def tree(worker: int) -> Path:
    """The copy of the tree that a worker spoils."""
    return PLACE / f"tree-{worker}"


def cache_of(worker: int) -> Path:
    """What has been compiled of it, without a fault."""
    return PLACE / f"cache-{worker}"


def copy_tree(worker: int) -> None:
    """The files of the tree as they are, with their times; others are removed."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    named = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True).stdout
    files = {name for name in named.decode().split("\0") if name and (ROOT / name).is_file()}
    target = tree(worker)
    for old in target.rglob("*") if target.exists() else ():
        if old.is_file() and old.suffix != ".pyc" and str(old.relative_to(target)) not in files:
            old.unlink()
    for name in files:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target / name)


def environment(worker: int) -> dict[str, str]:
    """The variables under which tests find that copy."""
    data = os.environ.get("ORDBM_DATA", str(ROOT.parent / "shared" / "data"))
    return {
        **os.environ,
        "PYTHONPATH": f"{tree(worker) / 'src'}:{ROOT / 'tools'}",
        "ORDBM_DATA": data,
        "NUMBA_CACHE_DIR": str(cache_of(worker)),
        "OMP_NUM_THREADS": "1",  # workers share the cores out
    }


def digest(paths: Iterable[Path]) -> str:
    """Of the contents of files."""
    return hashlib.sha256(b"".join(path.read_bytes() for path in sorted(paths))).hexdigest()[:16]


def traces() -> dict[str, dict[str, Any]]:
    """What each test runs, by test file; files whose trace is older than they are are run."""
    folder = PLACE / "traces"
    folder.mkdir(parents=True, exist_ok=True)
    tests = sorted((ROOT / "tests").glob("test_*.py"))
    tests = [path for path in tests if path.stem.removeprefix("test_") not in UNUSED]
    package = list((ROOT / "src").rglob("*.py"))
    helpers = [path for path in (ROOT / "tests").glob("*.py") if not path.stem.startswith("test_")]
    known_path = folder / "digests"
    known = json.loads(known_path.read_text()) if known_path.exists() else {}
    now = {path.stem: digest([path, *helpers, *package]) for path in tests}
    stale = [path for path in tests if known.get(path.stem) != now[path.stem]]
    if stale:
        print(f"running {len(stale)} test files to see which lines their tests run", flush=True)
        command = [sys.executable, "-m", "pytest", "-p", "mutant_tests", "-p", "no:cacheprovider",
                   "-q", "-n", str(WORKERS), "--dist", "loadfile"]  # fmt: skip
        files = [str(path.relative_to(ROOT)) for path in stale]
        told = {**environment(0), "MUTANTS_TRACE": str(folder)}
        done = subprocess.run([*command, *files], cwd=tree(0), env=told, check=False)
        if done.returncode not in (0, 1):  # of those that fail without a fault, none is asked
            raise SystemExit("the tests cannot be run")
        known_path.write_text(json.dumps(known | now))
    return {path.stem: json.loads((folder / f"{path.stem}.json").read_text()) for path in tests}


class Worker:
    """A copy of the tree, and runs of tests in it, each in a fork of this process."""

    def __init__(self, number: int) -> None:
        self.number, self.tree = number, tree(number)
        self.answer = PLACE / f"answer-{number}"
        self.trusted: set[str] = set()  # tests seen to pass without a fault
        self.broken: set[str] = set()
        self.noticed: dict[str, list[str]] = {}  # by file: tests that caught faults in it

    def failing(self, tests: Sequence[str], seconds: dict[str, float], cache: Path) -> str | None:
        """The first of these tests that fails, and how; None if none does."""
        tests = [test for test in tests if test not in self.broken]
        files = dict.fromkeys(test.partition("::")[0] for test in tests)
        if not tests:
            return None
        said = PLACE / f"running-{self.number}"
        said.write_text(tests[0])
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            try:
                self._run(tests, list(files), seconds, cache, said, writing)
            finally:
                os._exit(3)  # whatever happens, this fork is not another worker
        os.close(writing)
        longest = WAITS * sum(HANGS + 20 * seconds[test] for test in tests)
        heard, _, _ = select.select([reading], [], [], longest)
        ended = os.read(reading, 1) if heard else b""
        os.close(reading)
        with suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)  # it is done, or hangs; what it has started goes too
        status = os.waitpid(child, 0)[1]
        if ended:
            told = json.loads(self.answer.read_text())
            self.trusted.update(told["passed"])
            return told["failed"]
        ended_by = os.WTERMSIG(status) if os.WIFSIGNALED(status) and heard else signal.SIGPROF
        how = "does not end" if ended_by == signal.SIGPROF else "crashes"
        return f"{said.read_text()} ({how})"

    def _run(
        self, tests: Sequence[str], files: list[str], seconds: dict[str, float], cache: Path,
        said: Path, writing: int,
    ) -> None:  # fmt: skip
        """Run the tests in this fork, say how they ended, and end."""
        import numba  # noqa: PLC0415
        import pytest  # noqa: PLC0415

        os.setsid()
        signal.signal(signal.SIGINT, signal.default_int_handler)  # as tests expect
        with (PLACE / f"said-{self.number}").open("w") as out:
            os.dup2(out.fileno(), 1)
            os.dup2(out.fileno(), 2)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.environ.update(environment(self.number), NUMBA_CACHE_DIR=str(cache))
        os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
        sys.dont_write_bytecode = True
        setattr(numba.config, "CACHE_DIR", str(cache))  # noqa: B010
        os.chdir(self.tree)
        sys.path[:0] = [str(self.tree / "src"), str(self.tree / "tests")]
        plugin = Chosen(tests, said, {test: HANGS + 20 * seconds[test] for test in tests})
        options = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-W",
                   "ignore::pytest.PytestAssertRewriteWarning",
                   f"--basetemp={PLACE / f'tmp-{self.number}'}"]  # fmt: skip
        pytest.main([*options, *files], plugins=[plugin])
        failed = plugin.failed or (None if plugin.passed else "collection")
        self.answer.write_text(json.dumps({"failed": failed, "passed": plugin.passed}))
        os.write(writing, b".")

    def try_fault(
        self, mutant: Mutant, batches: Sequence[Sequence[str]], seconds: dict[str, float],
        enough: float,
    ) -> dict[str, Any]:  # fmt: skip
        """Put the fault in, run the tests, take it out; what failed must pass without it."""
        before = self.noticed.setdefault(mutant.file, [])
        batches = [[test for test in before[-NOTICED:] if test in seconds], *batches]
        path = self.tree / mutant.file
        source = path.read_text()
        times = path.stat()
        begin = time.monotonic()
        while True:
            cache = self._cache(mutant)
            path.write_text(mutant.source(source))
            try:
                each = (self.failing(tests, seconds, cache) for tests in batches)
                failed = next(filter(None, each), None)
            finally:
                path.write_text(source)
                os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
            test = (failed or "").partition(" ")[0]
            if not failed or self._passes(test, seconds):
                break
            self.broken.add(test)
        if test in seconds and test not in before:
            before.append(test)
        spent = round(time.monotonic() - begin, 1)
        shown = {name: getattr(mutant, name) for name in ("key", "file", "line", "within", "what")}
        texts = {"before": mutant.before, "after": mutant.after}
        asked = {"tests": len(seconds), "enough": enough}
        return {**shown, **texts, "by": failed, **asked, "seconds": spent}

    def _passes(self, test: str, seconds: dict[str, float]) -> bool:
        if test in self.trusted or test not in seconds:
            return True
        if self.failing([test], seconds, cache_of(self.number)) is None:
            self.trusted.add(test)
            return True
        return False

    def _cache(self, mutant: Mutant) -> Path:
        """Compiled code that the fault leaves alone: of modules that do not import its file."""
        if not is_compiled(mutant.file):
            return cache_of(self.number)
        cache = PLACE / f"cache-fault-{self.number}"
        shutil.rmtree(cache, ignore_errors=True)
        touched = importers(ROOT, mutant.file)

        def unlike(folder: str, names: list[str]) -> list[str]:
            kind = Path(folder).name.partition("_")[0]
            return [name for name in names if (kind, name.partition(".")[0]) in touched]

        shutil.copytree(cache_of(self.number), cache, copy_function=os.link, ignore=unlike)
        return cache


def importers(root: Path, file: str) -> set[tuple[str, str]]:
    """(folder, module) of all that import `file`, or import what does, and itself."""
    paths = sorted((root / "src" / "ordbm").rglob("*.py"))
    texts = {path: path.read_text() for path in paths}
    found = {root / file}
    while more := {
        path
        for path, text in texts.items()
        if path not in found
        and any(f"from ordbm.{each.parent.name}.{each.stem} import" in text for each in found)
    }:
        found |= more
    return {(path.parent.name, path.stem) for path in found}


_WORKER: list[Worker] = []  # of this process


def start_worker(numbers: Any) -> None:
    """Give this process its copy of the tree."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    _WORKER.append(Worker(numbers.get()))


def run_job(job: tuple[Mutant, list[list[str]], dict[str, float], float]) -> dict[str, Any]:
    """What became of one fault."""
    return _WORKER[0].try_fault(*job)


def outcomes() -> dict[str, dict[str, Any]]:
    """The last outcome of each fault, by key."""
    lines = OUTCOMES.read_text().splitlines() if OUTCOMES.exists() else []
    return {row["key"]: row for row in map(json.loads, lines)}


def matching(mutants: list[Mutant], pattern: str) -> list[Mutant]:
    """Those with this text in their file, line, function or key."""
    return [
        each for each in mutants if pattern in f"{each.file}:{each.line} {each.within} {each.key}"
    ]


def copy_cache(workers: int) -> None:
    """Let every worker start with what the traced run has compiled; folders are named by path."""
    for worker in range(1, workers):
        for folder in cache_of(0).iterdir():
            name = folder.name.rpartition("_")[0]
            for source in (tree(0) / "src").rglob(name):
                if hashlib.sha1(str(source).encode()).hexdigest() in folder.name:  # noqa: S324
                    there = tree(worker) / source.relative_to(tree(0))
                    hashed = hashlib.sha1(str(there).encode()).hexdigest()  # noqa: S324
                    target = cache_of(worker) / f"{name}_{hashed}"
                    shutil.copytree(folder, target, dirs_exist_ok=True)


def try_all(mutants: list[Mutant], enough: float, workers: int) -> None:
    """Run what has to be run, and append each outcome as it comes."""
    for worker in range(workers):
        copy_tree(worker)
    traced = traces()
    copy_cache(workers)
    chooser = Chooser(ROOT, traced, enough)
    seconds = {test: trace["seconds"] for test, trace in chooser.tests.items()}
    known = outcomes()

    def job(mutant: Mutant) -> tuple[Mutant, list[list[str]], dict[str, float], float]:
        last = (known.get(mutant.key, {}).get("by") or "").partition(" ")[0]
        before = [last] if last in seconds else []  # what caught it before
        batches = [before, *chooser.tests_of(mutant)]
        asked = {test: seconds[test] for tests in batches for test in tests}
        return mutant, batches, asked, enough

    for name in WARM:
        import_module(name)
    context = multiprocessing.get_context("fork")
    numbers = context.SimpleQueue()
    for worker in range(workers):
        numbers.put(worker)
    with context.Pool(workers, start_worker, (numbers,)) as pool, OUTCOMES.open("a") as out:
        for count, row in enumerate(pool.imap_unordered(run_job, map(job, mutants)), 1):
            out.write(json.dumps(row, ensure_ascii=False) + "\n")
            out.flush()
            told = f"caught by {row['by']}" if row["by"] else "SURVIVED"
            where = f"{row['file']}:{row['line']}"
            print(f"{count}/{len(mutants)} {row['seconds']}s {where} {told}", flush=True)
            if not row["by"]:
                print(f"    {row['key']}  {row['before']}\n      →  {row['after']}", flush=True)


def show(mutant: Mutant, row: dict[str, Any] | None) -> None:
    """Print a fault and what became of it."""
    by = "untried" if row is None else row["by"] or "survived"
    print(f"{mutant.key} {mutant.file}:{mutant.line} {mutant.what}: {by}")
    print(f"    {mutant.before}\n    {mutant.after}")


def main() -> None:
    """Try what is to be tried."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default="", metavar="X")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--enough", type=float, default=ENOUGH, metavar="SECONDS")
    parser.add_argument("--workers", type=int, default=WORKERS, metavar="N")
    asked = parser.parse_args()
    PLACE.mkdir(parents=True, exist_ok=True)
    mutants = matching(chosen(ROOT), asked.only)
    known = outcomes()
    if asked.list:
        for each in mutants:
            show(each, known.get(each.key))
        return
    survived = {key for key, row in known.items() if not row["by"]}
    if asked.again:
        wanted = [each for each in mutants if asked.only or each.key in survived]
    else:
        wanted = [each for each in mutants if each.key not in known]
    if wanted:  # folders mixed, so that a part of the run is of all; then those to be compiled
        wanted.sort(key=lambda each: (is_compiled(each.file), each.key))
        try_all(wanted, asked.enough, asked.workers)
    if not asked.only:
        write_page(ROOT, mutants, outcomes())


if __name__ == "__main__":
    main()
