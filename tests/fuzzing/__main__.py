"""Run many odd inputs: `make fuzz ARGS="--inputs 1000000 --seed 1"`.

Input number n of a seed is always the same one. Workers are processes of their own, held to an
amount of memory; one that dies, or takes too long over an input, counts as a failure of that input,
and another goes on after it. What failed is stored under build/fuzz with the words to run it again.
With `--resume` a run that was broken off goes on, if it has as many workers.
"""

import argparse
import json
import mmap
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from functools import cache
from pathlib import Path

import numpy as np

STORED = Path("build/fuzz")
ROOM = 2_000_000_000  # bytes of memory beyond what a worker has when it begins
TOO_LONG = (
    1800  # seconds for one input: far beyond what any takes, compiling on a busy computer too
)
POLL = 0.5  # seconds between looks at the workers
OUTCOMES = ("read", "refused", "failed")


def all_kinds():
    from fuzzing import command_lines, model_files, rating_files, settings

    return [*rating_files.KINDS, *model_files.KINDS, *settings.KINDS, *command_lines.KINDS]


def kind_of(kinds, number, only):
    """Kinds take turns, each as often as its weight says."""
    turns = turns_of(only)
    return kinds[turns[number % len(turns)]]


@cache
def turns_of(only):
    """The places of those kinds whose name contains `only`, in a fixed order."""
    kinds = enumerate(all_kinds())
    turns = [place for place, kind in kinds if only in kind.name for _ in range(kind.weight)]
    random.Random(0).shuffle(turns)
    return turns


def state_of(seed, number):
    return random.Random(f"{seed}/{number}")


class Board:
    """What a worker tells: the input under way, since when, and its outcomes by kind."""

    def __init__(self, path, n_kinds):
        with Path(path).open("r+b") as file:
            self.numbers = np.frombuffer(mmap.mmap(file.fileno(), 0), np.int64)
        self.outcomes = self.numbers[2:].reshape(n_kinds, len(OUTCOMES))

    @staticmethod
    def new(path, n_kinds, first=0):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes(8 * (2 + n_kinds * len(OUTCOMES))))
        board = Board(path, n_kinds)
        board.numbers[0] = first
        return board


def work(told):
    """A worker: the inputs first, first + step, ... below the end."""
    from fuzzing.kinds import judged_by
    from fuzzing.model_files import without_waiting_for_disks

    kinds = all_kinds()
    board = Board(told.board, len(kinds))
    without_waiting_for_disks()
    warnings.simplefilter("error")
    for name in ("nobody has rated", "stopped by"):  # said on purpose
        warnings.filterwarnings("ignore", message=name)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * os.sysconf("SC_PAGE_SIZE") + ROOM
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as here:
        folder = Path(here)
        for number in range(told.first, told.inputs, told.step):
            board.numbers[:2] = number, time.time()
            kind = kind_of(kinds, number, told.only)
            given = None
            try:
                given = kind.make(state_of(told.seed, number))
                outcome = judged_by(kind, given, folder)
            except Exception as error:
                outcome = "failed"
                store(told, number, kind, given, "".join(traceback.format_exception(error)[-6:]))
                if told.debug:
                    raise
            board.outcomes[kinds.index(kind), OUTCOMES.index(outcome)] += 1
            board.numbers[0] = number + told.step


def store(told, number, kind, given, why):
    """Keep what failed, and how to run it again."""
    from ordbm.runtime.checks import said

    STORED.mkdir(parents=True, exist_ok=True)
    again = f'make fuzz ARGS="--seed {told.seed} --number {number}'
    again += f" --only '{told.only}'\"" if told.only else '"'
    mark = f"{kind.name.replace(', ', ' ').replace(' ', '-')}-{told.seed}-{number}"
    words = {"kind": kind.name, "again": again, "why": why}
    if given is not None:
        words |= {"name": given.name, "told": said("told", given.told)}
        if given.content:
            (STORED / f"{mark}-{given.name}").write_bytes(given.content)
    (STORED / f"{mark}.json").write_text(json.dumps(words, indent=1))
    print(f"{number} {kind.name}: {why.strip().splitlines()[-1][:200]}", flush=True)


def supervise(told):
    """Start workers, watch over them, and count; whether all held."""
    kinds = all_kinds()
    started = time.time()
    died = Counter()
    boards, workers = [], []
    share = str(max(1, (os.cpu_count() or 1) // told.workers))  # of the cores, for each worker
    environment = {"OMP_NUM_THREADS": share, **os.environ}
    folder = STORED / f"boards-{told.seed}-{told.only}-{told.workers}"

    def begin(first, board):
        arguments = ["--worker", "--seed", told.seed, "--inputs", told.inputs, "--first", first]
        arguments += ["--step", told.workers, "--board", board, "--only", told.only]
        command = [sys.executable, "-m", "fuzzing", *map(str, arguments)]
        return subprocess.Popen(command, env=environment)

    for first in range(told.workers):
        path = folder / str(first)
        goes_on = told.resume and path.exists()
        board = Board(path, len(kinds)) if goes_on else Board.new(path, len(kinds), first)
        boards.append((path, board))
        workers.append(begin(int(board.numbers[0]), path))
    said = 0.0
    waited = [(-1, 0.0)] * told.workers  # the input under way, and for how long it was watched
    while any(worker.poll() is None for worker in workers):
        time.sleep(POLL)
        if told.minutes and time.time() - started > 60 * told.minutes:
            for worker in workers:
                worker.terminate()
                worker.wait()
            break
        for place, (path, board) in enumerate(boards):
            number, worker = int(board.numbers[0]), workers[place]
            last, seconds = waited[place]
            # Not by the clock, which goes on while all of the run is stopped.
            waited[place] = (number, seconds + POLL if number == last else 0.0)
            late = worker.poll() is None and waited[place][1] > TOO_LONG
            if late and number < told.inputs:
                worker.kill()
                worker.wait()
            if worker.poll() and number < told.inputs:
                kind = kind_of(kinds, number, told.only)
                what = "hung" if late else f"ended with {worker.returncode}"
                died["hangs" if late else "crashes"] += 1
                given = kind.make(state_of(told.seed, number))
                store(told, number, kind, given, what)
                board.outcomes[kinds.index(kind), OUTCOMES.index("failed")] += 1
                board.numbers[:2] = number + told.workers, time.time()
                workers[place] = begin(number + told.workers, path)
        if time.time() - said > 30:
            said = time.time()
            print(f"{sum(b.outcomes.sum() for _, b in boards):,} inputs", flush=True)
    total = sum(board.outcomes for _, board in boards)
    return report(kinds, total, died, told, time.time() - started)


def report(kinds, total, died, told, seconds):
    """The table of outcomes; whether all inputs held."""
    print(f"\n{total.sum():,} inputs of seed {told.seed} in {seconds / 60:.0f} minutes\n")
    print(
        "| kind of input | inputs | read | refused | failed |\n| --- | ---: | ---: | ---: | ---: |"
    )
    rows = [*zip((kind.name for kind in kinds), total, strict=True), ("all", total.sum(axis=0))]
    for name, counts in rows:
        if counts.sum():
            print(f"| {name} | {counts.sum():,} | " + " | ".join(f"{n:,}" for n in counts) + " |")
    n_failed = int(total[:, OUTCOMES.index("failed")].sum())
    deaths = sum(died.values())
    print(
        f"\n{died['crashes']} crashes, {died['hangs']} hangs, {n_failed - deaths} other failures "
        "(foreign exceptions, warnings, wrong or missing ratings, numbers that are none)"
    )
    return n_failed == 0


def arguments():
    parser = argparse.ArgumentParser(prog="make fuzz", description=__doc__)
    parser.add_argument("--inputs", type=int, default=20_000, help="how many")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--minutes", type=float, help="end after these, with what was done")
    parser.add_argument("--resume", action="store_true", help="go on after what was done")
    parser.add_argument("--only", default="", help="kinds whose name contains this")
    parser.add_argument("--number", type=int, help="this input alone, with its traceback")
    for name in ("--first", "--step"):
        parser.add_argument(name, type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--board", help=argparse.SUPPRESS)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def main():
    told = arguments()
    told.debug = told.number is not None
    if told.debug:
        told.first, told.inputs, told.step = told.number, told.number + 1, 1
        with tempfile.NamedTemporaryFile() as board:
            Board.new(Path(board.name), len(all_kinds()))
            told.board = board.name
            work(told)
        print("it holds")
    elif told.worker:
        work(told)
    elif not supervise(told):
        sys.exit(f"what failed is in {STORED}")


if __name__ == "__main__":
    main()
