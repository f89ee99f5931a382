"""Interrupt and kill real commands at many moments, and look at what remains.

    python tools/interrupt_many.py --interruptions 500 --kills 500 --page interruptions.md

Each command runs in a process of its own that tells which phase of its work begins: the signal is
sent when a phase, drawn at random, has begun and a random part of its usual time has passed. So
every phase is hit equally often, the start of the interpreter and imports included, however long
it takes and however busy the computer is.

After each: the process has ended, and left none behind; a Ctrl-C was heard; the file to be written
is the old one or a new one that is whole; a checkpoint goes on to the same bits.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from typer.testing import CliRunner

import ordbm
from ordbm.cli import app

MACHINE = ("--hidden", "4", "--members", "2", "--item-links", "5", "--epochs", "6")
COMMANDS: dict[str, tuple[str, ...]] = {
    "fit over a model": (
        "fit", "ratings.csv", "-o", "model.ordbm", *MACHINE, "--validation", "0.1",
    ),
    "fit with checkpoints": (
        "fit", "ratings.parquet", "-o", "model.ordbm", *MACHINE, "--checkpoint", "run",
    ),
    "recommend": ("recommend", "model.ordbm", "--user", "1"),
    "evaluate": ("evaluate", "ratings.csv", *MACHINE, "--lists", "5", "--report", "page.html"),
    "convert": ("data", "convert", "ratings.csv", "copy.parquet"),
}  # fmt: skip
RESUMED = "fit with checkpoints"
TOLD = Path(__file__).with_name("command_with_phases.py")
HANGS = 300  # seconds after which a process counts as one that does not end
MEASURED = 1  # undisturbed runs of each command: it need not be exact


class Outcome(NamedTuple):
    """What one signal led to."""

    command: str
    phase: str  # in which it was sent
    signal: int
    verdict: str  # heard, kept, after the end, lost, killed, or wrong: why
    seconds: float  # from the signal to the end of the process
    temporaries: int  # left behind
    result: str  # old, new, absent, or broken: why


class Runs:
    """Commands on small simulated ratings, in folders of their own."""

    def __init__(self, folder: Path) -> None:
        self.base = folder / "base"
        self.base.mkdir()
        self.folder = folder
        self._one_at_a_time = threading.Lock()
        _write_ratings(self.base)
        self._invoked(self.base, COMMANDS["fit over a model"])
        self.old = (self.base / "model.ordbm").read_bytes()
        whole = folder / "whole"
        shutil.copytree(self.base, whole)
        self._invoked(whole, [part for part in COMMANDS[RESUMED] if part not in _KEPT])
        self.whole = _predictions(whole / "model.ordbm")
        self.phases = {name: self._usual_phases(name) for name in COMMANDS}

    def interrupted(self, command: str, phase: str, share: float, number: int) -> Outcome:
        """One run that is sent a signal."""
        with tempfile.TemporaryDirectory(dir=self.folder) as name:
            place = Path(name) / "work"
            shutil.copytree(self.base, place)
            process, ear = _started(place, COMMANDS[command])
            text = b""
            try:
                while phase != "before" and f" {phase}\n".encode() not in text:
                    part = os.read(ear, 65536)
                    if not part:
                        break
                    text += part
                time.sleep(share * self.phases[command][phase])
                sent = time.monotonic_ns()
                if process.poll() is None:
                    process.send_signal(number)
                try:
                    errors = process.communicate(timeout=HANGS)[1].decode()
                except subprocess.TimeoutExpired:
                    errors = "it did not end"
                seconds = (time.monotonic_ns() - sent) / 1e9
                while part := os.read(ear, 65536):
                    text += part
            finally:
                os.close(ear)
                left = _end_group(process)
            marks = _marks(text)
            verdict = _verdict(number, process.returncode, errors, sent, marks)
            if left:
                verdict = "wrong: a process was left behind"
            temporaries = len(list(place.rglob("*.tmp")))
            result = self._result(command, place)
            where = [word for when, word in marks if when <= sent and word != "noted"]
            return Outcome(
                command, where[-1] if where else "before", number, verdict, seconds, temporaries,
                result,
            )  # fmt: skip

    def _result(self, command: str, place: Path) -> str:
        """What has become of the file that the command writes."""
        try:
            if command == "convert":
                target = place / "copy.parquet"
                return "absent" if not target.exists() else self._converted(target)
            if command == "evaluate":
                page = place / "page.html"
                return "absent" if not page.exists() else _whole_page(page)
            model = place / "model.ordbm"
            result = "old" if model.read_bytes() == self.old else "new"
            if not np.isfinite(_predictions(model)).all():
                return "broken: no numbers"
            if command == RESUMED:
                self._invoked(place, [*COMMANDS[command], "--resume"])
                if not np.array_equal(_predictions(model), self.whole):
                    return "broken: other bits after going on"
        except Exception as error:  # whatever it is, it is the result
            return f"broken: {error!r}"
        return result

    def _converted(self, target: Path) -> str:
        same = len(ordbm.read_ratings(target)) == len(ordbm.read_ratings(self.base / "ratings.csv"))
        return "new" if same else "broken: ratings are missing"

    def _usual_phases(self, command: str) -> dict[str, float]:
        """Seconds from the beginning of each phase to the next mark."""
        found: dict[str, list[float]] = {}
        for _ in range(MEASURED):
            with tempfile.TemporaryDirectory(dir=self.folder) as name:
                place = Path(name) / "work"
                shutil.copytree(self.base, place)
                begun = time.monotonic_ns()
                process, ear = _started(place, COMMANDS[command])
                text = b""
                while part := os.read(ear, 65536):
                    text += part
                os.close(ear)
                errors = process.communicate(timeout=HANGS)[1].decode()
                if process.returncode:
                    raise RuntimeError(errors)
            marks = [(begun, "before"), *_marks(text)]
            for (when, word), (then, _) in pairwise(marks):
                found.setdefault(word, []).append((then - when) / 1e9)
        found.pop("end", None)
        return {word: max(seconds) for word, seconds in found.items()}

    def _invoked(self, place: Path, arguments: Sequence[str]) -> None:
        """The command in this process."""
        paths = [str(place / part) if part in _PATHS else part for part in arguments]
        with self._one_at_a_time:  # it takes the place of this process's output
            done = CliRunner().invoke(app, paths)
        if done.exit_code:
            raise RuntimeError(done.stderr)


_KEPT = ("--checkpoint", "run")
_PATHS = ("ratings.csv", "ratings.parquet", "model.ordbm", "copy.parquet", "page.html", "run")


def outcomes(
    interruptions: int, kills: int, seed: int, workers: int = 2, rows: Path | None = None
) -> list[Outcome]:
    """So many signals, spread evenly over all phases of all commands; each in a line of `rows`.

    Those whose outcomes are there already, of a run that was broken off, are not sent again.
    """
    # Where this runs in the background of a shell, Ctrl-C is ignored: commands would ignore it too.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    lines = rows.read_text().splitlines() if rows is not None and rows.exists() else []
    found = [Outcome(**json.loads(line)) for line in lines]
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(workers) as pool:
        runs = Runs(Path(name))
        plan = [*_moments(runs, signal.SIGINT, interruptions, seed)]
        plan += _moments(runs, signal.SIGKILL, kills, seed + 1)
        random.Random(seed).shuffle(plan)  # noqa: S311
        for outcome in pool.map(lambda moment: runs.interrupted(*moment), plan[len(found) :]):
            found.append(outcome)
            if rows is not None:
                with rows.open("a") as file:
                    print(json.dumps(outcome._asdict()), file=file)
    return found


def _moments(runs: Runs, number: int, n: int, seed: int) -> Iterator[tuple[str, str, float, int]]:
    rng = random.Random(seed)  # noqa: S311
    places = [(command, phase) for command, phases in runs.phases.items() for phase in phases]
    rng.shuffle(places)
    for turn in range(n):
        command, phase = places[turn % len(places)]
        yield command, phase, rng.random(), number


def _write_ratings(folder: Path) -> None:
    rng = np.random.default_rng(0)
    pairs = rng.choice(60 * 40, 1200, replace=False)
    liking = rng.normal(size=60)[pairs // 40] + rng.normal(size=40)[pairs % 40]
    stars = np.clip(np.round(3 + liking), 1, 5).astype(int)
    ratings = ordbm.Ratings(pairs // 40 + 1, pairs % 40 + 100, stars)
    ordbm.write_ratings(ratings, folder / "ratings.csv")
    ordbm.write_ratings(ratings, folder / "ratings.parquet")


def _predictions(path: Path) -> Any:
    return ordbm.load(path).predict_proba(list(range(1, 61)), 100)


def _whole_page(page: Path) -> str:
    return "new" if page.read_text().rstrip().endswith("</html>") else "broken: half a page"


def _started(place: Path, arguments: Sequence[str]) -> tuple[subprocess.Popen[bytes], int]:
    """The command as a process group of its own, and where its marks can be read."""
    ear, mouth = os.pipe()
    os.set_inheritable(mouth, True)
    process = subprocess.Popen(
        [sys.executable, TOLD, str(mouth), *arguments],
        cwd=place, stdout=subprocess.PIPE, stderr=subprocess.PIPE, pass_fds=[mouth],
        start_new_session=True,
    )  # fmt: skip
    os.close(mouth)
    return process, ear


def _end_group(process: subprocess.Popen[bytes]) -> bool:
    """Whether any process of the group was still there; none is after this."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    process.wait()
    return True


def _marks(text: bytes) -> list[tuple[int, str]]:
    """When each phase began, by the clock that all processes share."""
    lines = [line.split() for line in text.decode().splitlines()]
    return [(int(line[0]), line[1]) for line in lines if len(line) == 2]


def _verdict(number: int, code: int, errors: str, sent: int, marks: list[tuple[int, str]]) -> str:
    if number == signal.SIGKILL:
        return "killed" if code == -signal.SIGKILL else "after the end"
    words = [word for _, word in marks]
    noted = words.index("noted") if "noted" in words else len(words)
    end = words.index("end") if "end" in words else len(words)
    if not words and code != 0:
        return "heard"  # by Python, before there was anything of ours
    if end < noted and sent >= marks[end - 2][0]:  # of the last phase and its end
        return "after the end" if code in (0, -signal.SIGINT) else f"wrong: exit status {code}"
    if code == 130:
        return "heard" if errors.endswith("ordbm: interrupted\n") else f"wrong: {errors[-300:]}"
    if code != 0 or "Traceback" in errors:
        return f"wrong: exit status {code}, {errors[-300:]}"
    return "kept" if "interrupted" in errors else "lost"  # the model of the epochs so far


def _page(found: list[Outcome], command: str) -> str:
    """The results as a page of tables."""
    sent = Counter(one.signal for one in found)
    lines = [
        "# Interruptions",
        "",
        f"{sent[signal.SIGINT]} times Ctrl-C and {sent[signal.SIGKILL]} times `kill -9`: each is",
        "sent to a command in a process of its own, when a phase of its work, drawn at random,",
        "has begun and a random part of its usual time has passed. *Before* is the start of the",
        "interpreter, *start* what is imported by then, *command* what is between other phases.",
        "",
        "```text",
        command,
        "```",
        "",
        "*Heard*: exit status 130. *Kept*: the model of the epochs so far was saved, and it is",
        "said. *After the end*: all was done already. The file is the one that the command writes;",
        "one that is there loads and predicts, and a training with checkpoints goes on to the same",
        "bits. *Temporaries* are files that a save was to move to their place.",
        "",
    ]
    for number, title in ((signal.SIGINT, "Ctrl-C"), (signal.SIGKILL, "Kill")):
        some = [one for one in found if one.signal == number]
        verdicts = (
            ("heard", "kept", "after the end", "lost", "wrong")
            if number == signal.SIGINT
            else ("killed", "after the end", "wrong")
        )
        results = ("old", "new", "absent", "broken")
        lines += [f"## {title}", "", _row("command", "phase", "sent", *verdicts, "longest, s",
                  "old file", "new file", "no file", "broken file", "temporaries")]  # fmt: skip
        lines += [_row(*["---"] * (9 + len(verdicts)))]
        places = sorted({(one.command, one.phase) for one in some})
        for place in [*places, None]:
            here = [one for one in some if place is None or (one.command, one.phase) == place]
            of = Counter(one.verdict.split(":")[0] for one in here)
            left = Counter(one.result.split(":")[0] for one in here)
            lines.append(
                _row(
                    *(place or ("all", "")),
                    len(here),
                    *(of[word] for word in verdicts),
                    f"{max((one.seconds for one in here), default=0):.1f}",
                    *(left[word] for word in results),
                    sum(one.temporaries for one in here),
                )
            )
        lines.append("")
    return "\n".join(lines)


def _row(*cells: Any) -> str:
    return "| " + " | ".join(map(str, cells)) + " |"


def faults(found: list[Outcome]) -> list[Outcome]:
    """What must not be, at any moment."""
    return [
        one
        for one in found
        if one.verdict.startswith(("lost", "wrong"))
        or one.result.startswith("broken")
        or (one.signal == signal.SIGINT and one.temporaries)
    ]


def main() -> None:
    """Run them all; exit status 1 if anything was lost or broken."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--interruptions", type=int, default=500)
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--page", type=Path, help="where to write the tables")
    parser.add_argument("--rows", type=Path, help="keep outcomes here, and go on after them")
    parser.add_argument("--workers", type=int, default=2, help="commands at a time")
    options = parser.parse_args()
    found = outcomes(
        options.interruptions, options.kills, options.seed, options.workers, options.rows
    )
    page = _page(found, "make interruptions")
    print(page)
    for fault in faults(found):
        print(fault)
    if options.page:
        options.page.write_text(page)
    sys.exit(bool(faults(found)))


if __name__ == "__main__":
    main()
