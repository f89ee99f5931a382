"""Runs what README and docs show. As a script, writes the outputs they show anew:

    python tests/docs_pages.py                        # of all pages
    python tests/docs_pages.py docs/how-to/lists.md   # of this one

Blocks of Python and of commands run from the top of a page to its end, in a folder of their own. A
`text` block right after one is what it prints. `ordbm serve` starts a service, on a free port,
which `curl` asks until the page ends. `<!-- not run: reason -->` and `<!-- fails -->`
before a block say just that. What comes after the last output of a page, which is the whole page if
it shows none, runs with a small machine on the ratings of a few people.

What is shown must hold on every processor. Numbers may differ in their last digit; words, and with
them the order of items, may not, so a list whose neighbours (or whose last item and the next, which
is not shown) are nearly tied is refused: choose another example, or show fewer items.
"""

import ast
import contextlib
import inspect
import io
import os
import re
import shlex
import sys
import tempfile
import tomllib
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import pandas as pd
from typer.testing import CliRunner

import ordbm
from ordbm.model import settings

ROOT = Path(__file__).parents[1]
PAGES = [
    ROOT / "README.md",
    *sorted(path for path in (ROOT / "docs").rglob("*.md") if "_build" not in path.parts),
]
LOAD = ordbm.load_dataset
SMALL = {"epochs": 2, "hidden": 4, "item_links": 5, "members": 2}
FENCE = re.compile(
    r"(?:<!-- (?P<remark>[^\n]*) -->\n+)?"
    r"^```(?P<kind>python|console)\n(?P<code>.*?)^```$"
    r"(?:\n\n```text\n(?P<output>.*?)^```$)?",
    re.DOTALL | re.MULTILINE,
)
# Processors' scores differ by 1e-3, gaps between scores by twice that. A page is written with gaps
# above NEAR; then they are above TIED on every other processor, and neighbours in the same order.
NEAR = 5e-3
TIED = NEAR / 2
TIME = re.compile(r"\d+(?:\.\d+)? (?:m?s|min|h|MB|GB)\b")  # and sizes, which follow the machine
NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?")


class Block(NamedTuple):
    kind: str
    code: str
    line: int  # of the page, the first of the code
    output: str | None
    output_span: tuple[int, int]
    remark: str

    @property
    def is_run(self):
        return not self.remark.startswith("not run: ")


def blocks(text):
    for found in FENCE.finditer(text):
        line = text.count("\n", 0, found.start("code")) + 1
        output, span = found["output"], found.span("output")
        yield Block(found["kind"], found["code"], line, output, span, found["remark"] or "")


class Printed(NamedTuple):
    """What a block printed, and how near neighbours were in the lists it asked for, at least."""

    block: Block
    text: str
    gap: float

    @property
    def is_robust(self):
        return self.block.output is None or self.gap > TIED


def printed_by(page):
    """A `Printed` for each block of a page that is run, in order."""
    found = list(blocks(page.read_text(encoding="utf-8")))
    shown = max((block.line for block in found if block.output is not None), default=0)
    here = Path.cwd()
    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch.dict(os.environ, {"COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"}),
        gaps_noted() as gaps,
    ):
        printed = []
        names = {}
        try:
            os.chdir(folder)
            names = what_readers_bring()
            for block in found:
                if block.is_run:
                    gaps.clear()
                    run = run_python if block.kind == "python" else run_commands
                    with contextlib.nullcontext() if block.line <= shown else all_small():
                        text = run(block, page, names)
                    printed.append(Printed(block, text, min(gaps, default=1.0)))
        finally:
            for server in names.get("servers", ()):
                server.__exit__()
            os.chdir(here)
        return printed


@contextlib.contextmanager
def all_small():
    """Little to learn, and little to learn from."""
    presets = dict.fromkeys(("fast", "default", "best"), SMALL)
    with (
        mock.patch.dict(settings.PRESETS, presets),
        mock.patch.object(ordbm, "load_dataset", lambda name: ratings_of_few(LOAD(name))),
    ):
        yield


def ratings_of_few(ratings):
    return ratings.select(ratings.user_codes < 60)


@contextlib.contextmanager
def gaps_noted():
    """A list that gets the gaps between neighbours of each list a model is asked for within.

    A gap is a share of the larger score where that is above one. The first item that is not listed
    counts as a neighbour. Lists with `diversity` are not in the order of scores, and not noted.
    """
    gaps = []

    def noting(ask, score_of):
        form = inspect.signature(ask)

        def noted(*arguments, **options):
            asked = form.bind(*arguments, **options)
            lines = ask(*asked.args, **asked.kwargs)
            if asked.arguments.get("diversity", 0) == 0:
                asked.arguments["n"] = len(lines) + 1
                scores = [score_of(line) for line in ask(*asked.args, **asked.kwargs)]
                gaps.extend((a - b) / max(1.0, abs(a), abs(b)) for a, b in pairwise(scores))
            return lines

        return noted

    model = ordbm.OrdinalBM
    with (
        mock.patch.object(model, "recommend", noting(model.recommend, lambda line: line.score)),
        mock.patch.object(
            model, "similar_items", noting(model.similar_items, lambda line: line.similarity)
        ),
    ):
        yield gaps


def what_readers_bring():
    """Stand-ins for data of one's own, as names and as files."""
    frame = ratings_of_few(ordbm.load_dataset("movielens-small")).to_frame("pandas")
    frame.to_csv("ratings.csv", index=False)
    frame[["user", "item"]].head(5).to_csv("pairs.csv", index=False)
    frame.head(3).assign(user=99_999).to_csv("today.csv", index=False)
    frame.tail(2).to_csv("gone.csv", index=False)
    own = frame.rename(columns={"user": "customer", "item": "film", "rating": "stars"})
    return {
        "users": [1, 1],
        "items": [31, 1029],
        "values": [4, 2],
        "answers": ["good", "poor"],
        "seconds": [5, 100],
        "frame": own,
    }


def run_python(block, page, names):
    """What the code prints; the value of a last line that is an expression is shown too."""
    tree = ast.parse("\n" * (block.line - 1) + block.code, page.name)
    shown = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        exec(compile(tree, page.name, "exec"), names)
        if shown is not None:
            value = eval(compile(ast.Expression(shown.value), page.name, "eval"), names)
            if value is not None:
                print(value if isinstance(value, pd.DataFrame) else repr(value))
    return out.getvalue()


def run_commands(block, page, names):
    """What the `ordbm` commands print. Those of make and pip are held to exist instead."""
    out = []
    for line in block.code.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if not words:
            continue
        if words[0] == "make":
            check_make_target(words[1])
        elif words[:2] == ["pip", "install"]:
            check_extras(words[2])
        elif words[:2] == ["ordbm", "serve"]:
            names.setdefault("servers", []).append(started_server(words[2:]))
        elif words[0] == "curl":
            out.append(asked_server(names["servers"][-1], words[1:]))
        elif words[0] == "ordbm":
            out.append(run_command(words[1:], fails=block.remark == "fails"))
        else:
            raise AssertionError(f"{page.name}: do not know how to run {line!r}")
    return "".join(out)


def run_command(words, fails):
    from ordbm.cli import app

    result = CliRunner().invoke(app, words)
    if result.exit_code != (2 if fails else 0):
        raise AssertionError(f"{words}: exit code {result.exit_code}: {result.output}") from (
            result.exception
        )
    return result.output


def started_server(words):
    """`ordbm serve`, on a free port whichever the page says."""
    from service_runs import Server

    return Server(*words).wait_until_ready()


def asked_server(server, words):
    """What `curl` prints of a service's answer, which must be a good one."""
    method, headers, body, address = "GET", {}, None, ""
    words = iter(words)
    for word in words:
        if word == "-X":
            method = next(words)
        elif word == "-H":
            name, _, value = next(words).partition(": ")
            headers[name] = value
        elif word == "-d":
            body = next(words)
        else:
            address = word.removeprefix("http://127.0.0.1:8000")
    answer = server.client.request(method, address, headers=headers, content=body)
    if not answer.is_success:
        raise AssertionError(f"{method} {address}: {answer.status_code} {answer.text}")
    return answer.text + "\n"


def check_make_target(name):
    targets = re.findall(r"^([a-z][a-z0-9-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert name in targets, f"there is no `make {name}`"


def check_extras(requirement):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    name, _, extras = requirement.partition("[")
    assert name == project["name"]
    known = set(project["optional-dependencies"])
    assert set(filter(None, re.split(r"[\],]", extras))) <= known, requirement


def alike(shown, printed):
    """The same words and whole numbers; other numbers close; times and lengths of bars ignored."""
    return _stable(shown) == _stable(printed) and all(
        abs(float(a) - float(b)) <= max(0.02, 0.02 * abs(float(b)), 1.5 * _last_digit(b))
        for a, b in zip(_decimals(shown), _decimals(printed), strict=True)
    )


def _stable(text):
    words = TIME.sub("… s", text)
    words = re.sub("[█▏▎▍▌▋▊▉]+", " ", words)
    words = NUMBER.sub(lambda number: "#" if "." in number[0] else number[0], words)
    return words.split()


def _decimals(text):
    return [number for number in NUMBER.findall(TIME.sub("", text)) if "." in number]


def _last_digit(number):
    return 10.0 ** -len(number.partition(".")[2])


def with_times_of(shown, printed):
    """`printed` with the times that were shown before: those of today say nothing new."""
    times = iter(TIME.findall(shown))
    if len(TIME.findall(shown)) != len(TIME.findall(printed)):
        return printed
    return TIME.sub(lambda _: next(times), printed)


def write_outputs(page):
    text = page.read_text(encoding="utf-8")
    for block, printed, gap in reversed(printed_by(page)):
        if block.output is not None:
            if gap <= NEAR:
                print(f"{page.relative_to(ROOT)}:{block.line}: a near tie ({gap:.0e}), change it")
            start, end = block.output_span
            today = with_times_of(block.output, printed)
            lines = "\n".join(line.rstrip() for line in today.splitlines())
            text = text[:start] + lines.strip("\n") + "\n" + text[end:]
    page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    for each in [Path(name).resolve() for name in sys.argv[1:]] or PAGES:
        if any(block.output is not None for block in blocks(each.read_text(encoding="utf-8"))):
            print(each.relative_to(ROOT))
            write_outputs(each)
