"""Which faults are tried, and which tests could notice each."""

from __future__ import annotations

import ast
import hashlib
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from mutant_operators import Mutant, mutants_of

SEED = 16
FOLDERS = {  # how many faults are put into each
    "training": 40, "model": 36, "priors": 12, "inference": 18, "recommend": 14, "explain": 12,
    "evaluation": 14, "metrics": 20, "data": 24, "baselines": 16, "kernels": 44, "datasets": 28,
    "persistence": 24, "runtime": 14, "cli": 14,
}  # fmt: skip
WRITTEN = Path(__file__).with_name("mutants.toml")  # faults by hand, and what cannot be noticed
DECLARED = "tests/test_defaults.py"  # it looks at whatever is declared, by no name
QUICK = 1.0  # seconds: such tests come first
FIRST = 40  # tests that are run before all others, at most
TURN = 15  # tests of a file before it is another file's turn
ENOUGH = 100.0  # seconds of tests, undisturbed: what they do not notice has survived


def _drawn(key: str) -> str:
    return hashlib.sha256(f"{SEED} {key}".encode()).hexdigest()


def by_hand(root: Path) -> list[Mutant]:
    """The faults of `mutants.toml`: `before`, once in `file`, becomes `after`."""
    found = []
    for fault in tomllib.loads(WRITTEN.read_text()).get("fault", []):
        file, before, after = fault["file"], fault["before"], fault["after"]
        source = (root / file).read_text()
        if source.count(before) != 1:
            raise SystemExit(
                f"{WRITTEN.name}: {before!r} is {source.count(before)} times in {file}"
            )
        start = source.index(before)
        line = source.count("\n", 0, start) + 1
        shown = [" ".join(part.split()) for part in (before, after)]
        key = hashlib.sha256(f"{file}\0{before}\0{after}".encode()).hexdigest()[:12]
        end = start + len(before)
        within = _place(root, file, line).name
        what = fault["what"]
        found.append(Mutant(file, line, within, what, shown[0], shown[1], start, end, after, key))
    return found


def chosen(root: Path) -> list[Mutant]:
    """Those by hand, then a share of every folder: a change of one file moves no other's."""
    found = by_hand(root)
    for folder, count in FOLDERS.items():
        files = sorted((root / "src" / "ordbm" / folder).rglob("*.py"))
        all_of = [
            mutant for path in files for mutant in mutants_of(root, str(path.relative_to(root)))
        ]
        drawn = sorted(all_of, key=lambda mutant: _drawn(mutant.key))
        valid = (each for each in drawn if each.is_python((root / each.file).read_text()))
        found += islice(valid, count)
    return found


def reasons() -> dict[tuple[str, str, str], str]:
    """Why a fault changes nothing that could be asked for, by (file, before, after)."""
    told = tomllib.loads(WRITTEN.read_text()).get("same", [])
    return {(each["file"], each["before"], each["after"]): each["why"] for each in told}


class _Place(NamedTuple):
    """A function, method or assignment at the top of a module or class, and what it mentions."""

    file: str
    name: str
    owner: str  # the name at the top of the module
    first: int
    last: int
    inside: bool  # lines run when it is called, not when it is imported
    mentions: frozenset[str]


def _mentions(node: ast.AST) -> frozenset[str]:
    names = [each.id for each in ast.walk(node) if isinstance(each, ast.Name)]
    return frozenset(
        [*names, *(each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute))]
    )


def _named(node: ast.stmt) -> str:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return node.name
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return next((each.id for each in targets if isinstance(each, ast.Name)), "")


@cache
def _places(root: Path, file: str) -> list[_Place]:
    found = []
    for node in ast.parse((root / file).read_text()).body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            continue
        parts = node.body if isinstance(node, ast.ClassDef) else [node]
        for part in parts:
            inside = isinstance(part, ast.FunctionDef)
            owner = _named(node)
            name = owner if part is node else f"{owner}.{_named(part)}"
            first = part.body[0].lineno if isinstance(part, ast.FunctionDef) else part.lineno
            last = part.end_lineno or first
            found.append(_Place(file, name, owner, first, last, inside, _mentions(part)))
    return found


def _place(root: Path, file: str, line: int) -> _Place:
    """Where a line belongs: the place that ends last before the next begins."""
    after = [place for place in _places(root, file) if line <= place.last]
    return after[0] if after else _places(root, file)[-1]


@cache
def _files(root: Path) -> list[str]:
    return [str(path.relative_to(root)) for path in sorted((root / "src/ordbm").rglob("*.py"))]


def is_compiled(file: str) -> bool:
    """Whether tests run it unseen."""
    return "kernels" in file


class Chooser:
    """Finds the tests that could notice a fault, the quickest first."""

    def __init__(self, root: Path, traces: dict[str, dict[str, Any]], enough: float) -> None:
        self.root, self.enough = root, enough
        self.tests = {test: trace for tests in traces.values() for test, trace in tests.items()}
        self._of_line: dict[str, dict[int, list[str]]] = {}  # tests by file and line
        for test, trace in self.tests.items():
            for file, lines in trace["lines"].items():
                of_line = self._of_line.setdefault(file, {})
                for line in lines:
                    of_line.setdefault(line, []).append(test)

    def running(self, file: str, first: int, last: int) -> set[str]:
        """Tests that run one of these lines."""
        of_line = self._of_line.get(file, {})
        return {test for line in range(first, last + 1) for test in of_line.get(line, ())}

    def _of_file(self, file: str) -> Iterator[str]:
        """Tests that run any line of a file."""
        return (test for test, trace in self.tests.items() if file in trace["lines"])

    def _by_name(self, mutant: Mutant) -> set[str]:
        """Tests that run what mentions the fault's place; in kernels, also what mentions that."""
        reached = {_place(self.root, mutant.file, mutant.line).owner}
        places = [place for file in _files(self.root) for place in _places(self.root, file)]
        unseen = [place for place in places if is_compiled(place.file) or not place.inside]
        while (
            more := {place.owner for place in unseen if place.mentions & reached and place.owner}
            - reached
        ):
            reached |= more
            if not is_compiled(mutant.file):
                break
        found: set[str] = set()
        for place in places:
            if place.inside and place.mentions & reached:
                found |= self.running(place.file, place.first, place.last)
        word = re.compile("|".join(rf"\b{re.escape(name)}\b" for name in reached if name) or "$^")
        for path in sorted((self.root / "tests").glob("test_*.py")):
            if word.search(path.read_text()):
                file = str(path.relative_to(self.root))
                found |= {test for test in self.tests if test.startswith(f"{file}::")}
        return found

    def tests_of(self, mutant: Mutant) -> list[list[str]]:
        """Tests in the order in which they are to be run, worth `enough` seconds at most.

        First a few that are about this file more than about others. Then those that run the line,
        and then the others of their files: what a helper keeps from one test to the next is run by
        one and looked at by another.
        """
        place = _place(self.root, mutant.file, mutant.line)
        direct: set[str] = set()
        if not is_compiled(mutant.file) and place.inside:
            direct = self.running(mutant.file, mutant.line, mutant.line)
            if mutant.line < place.first or not direct:
                direct = self.running(mutant.file, place.first, place.last)
        direct = direct or self._by_name(mutant) or set(self._of_file(mutant.file))
        files = {test.partition("::")[0] for test in direct}
        beside = {test for test in self.tests if test.partition("::")[0] in files} - direct
        first = self._about(mutant.file, direct)
        if not place.inside or mutant.line < place.first:
            first |= {test for test in self.tests if test.startswith(DECLARED)}
        found = []
        left = self.enough
        for test in (*self._ordered(direct - first), *self._ordered(beside)):
            left -= self.tests[test]["seconds"]
            if left < 0:
                break
            found.append(test)
        return [self._ordered(first), found]

    def _about(self, file: str, tests: set[str]) -> set[str]:
        """Of quick tests a few that run most of their lines in this file, or name its module."""

        def share(test: str) -> float:
            lines = self.tests[test]["lines"]
            named = Path(file).stem in test.partition("::")[0]
            return named + len(lines.get(file, ())) / (1 + sum(map(len, lines.values())))

        quick = [test for test in tests if self.tests[test]["seconds"] <= QUICK]
        best = sorted(quick or tests, key=lambda test: (-share(test), test))[:FIRST]
        files = list(dict.fromkeys(test.partition("::")[0] for test in best))[:3]
        return {test for test in best if test.partition("::")[0] in files}

    def _ordered(self, tests: set[str]) -> list[str]:
        """Quick ones first, a few of each file in turn: files differ more than their tests do."""
        groups: dict[tuple[bool, str], list[str]] = {}
        for test in sorted(tests, key=lambda test: (self.tests[test]["seconds"], test)):
            slow = self.tests[test]["seconds"] > QUICK
            groups.setdefault((slow, test.partition("::")[0]), []).append(test)
        turns = []
        for (slow, file), found in groups.items():
            cost = sum(self.tests[test]["seconds"] for test in found) / len(found)
            turns += [
                (slow, first, cost, file, found[first : first + TURN])
                for first in range(0, len(found), TURN)
            ]
        return [test for turn in sorted(turns) for test in turn[-1]]
