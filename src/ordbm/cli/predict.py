"""`ordbm predict`: a row of figures for each pair of user and item."""

# ruff: noqa: PLC0415 -- help must be quick

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, BinaryIO

from typer import Argument, Option

import ordbm
from ordbm.cli.app import app
from ordbm.cli.datasets import dataset_columns, part_bar, tell_done
from ordbm.cli.inputs import (
    STANDARD,
    ModelFile,
    check_target,
    given_file,
    model_in_file,
)
from ordbm.cli.options import Force, Json, PairOptions, Quiet, unfolded
from ordbm.cli.output import count_in_words, json_ready, output_file, print_json, stderr, step_bar
from ordbm.runtime.printable import printable

PAIRS_AT_ONCE = 100_000
_FIRST = ("user", "item", "mean")  # columns of every file of predictions
_CSV_BEGIN = ",".join(f'"{name}"' for name in _FIRST).encode()


@app.command()
@unfolded
def predict(
    file: ModelFile,
    pairs: Annotated[
        str,
        Argument(
            help="A file of users and items to predict for, - for standard input; or a parquet "
            "dataset, a folder or an address (s3://…).",
            metavar="PAIRS",
        ),
    ],
    reading: PairOptions,
    at: Annotated[
        str | None,
        Option(
            help="The time that all pairs are asked about, in seconds or ISO 8601; if not given, "
            "that of each in the file, if it has one.",
            metavar="TIME",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        Option(
            "--output",
            "-o",
            help="A .csv or .parquet file, csv on stdout if not given; for a dataset, a folder.",
            metavar="FILE",
        ),
    ] = None,
    force: Force = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Predict ratings: mean, median, mode, deviation, confidence and the probability of each level.

    `known_user` and `known_item` say whether the model has ratings of them; for a stranger it
    predicts from what is known of the other, or of all ratings. Where times are known, what
    somebody rated about then tells more; so does other context, by `--context-column`.

    A dataset gives a file for each of its files. Started again after it was ended, at any moment,
    it goes on with those that are not there.

    Examples: `ordbm predict model.ordbm pairs.csv -o predictions.parquet` ·
    `ordbm predict model.ordbm pairs/ -o predictions/`
    """  # fmt: skip
    from ordbm.batch.scoring import answered_pairs
    from ordbm.datasets import read_pairs
    from ordbm.datasets.stored_files import is_address

    if is_address(pairs) or Path(pairs).is_dir():
        _predict_dataset(file, pairs, reading, at, output, quiet, as_json)
        return
    output = None if str(output) == STANDARD else output
    check_target(output, None if force else _are_predictions)
    if output is not None and output.suffix not in (".csv", ".parquet"):
        raise ordbm.errors.SettingsError(f"{output}: the output must end in .csv or .parquet")
    model = model_in_file(file)
    wanted = read_pairs(given_file(pairs), **reading.arguments())
    unknown = Counter[str]()
    with (
        step_bar(quiet or as_json, "predicting", len(wanted.users), "pairs") as done,
        _writer(output, as_json, force) as write,
    ):
        for first in range(0, len(wanted.users), PAIRS_AT_ONCE):
            block = slice(first, first + PAIRS_AT_ONCE)
            when = wanted.times[block] if at is None and wanted.times is not None else at
            beside = {name: column[block] for name, column in wanted.context.items()}
            asked = wanted.users[block], wanted.items[block]
            found = answered_pairs(model, *asked, at=when, context=beside)
            unknown.update(_strangers(found))
            write(found)
            done(first + len(found))
    say = stderr(quiet or as_json).print
    if unknown["pairs"]:
        say(f"{unknown['pairs']:,} of {len(wanted.users):,} pairs have an unknown user or item")
    if output is not None:
        say(f"{output}: {count_in_words(len(wanted.users), 'prediction')}", markup=False)
    if output is not None and as_json:
        print_json(
            {
                "path": str(output),
                "pairs": len(wanted.users),
                "unknown_users": unknown["users"],
                "unknown_items": unknown["items"],
            }
        )


def _predict_dataset(
    file: Path,
    pairs: str,
    reading: PairOptions,
    at: str | None,
    output: Path | None,
    quiet: bool,
    as_json: bool,
) -> None:
    """Predictions for each file of a dataset, in a folder."""
    from ordbm.batch import predict_dataset

    if output is None or output.suffix in (".csv", ".parquet"):
        raise ordbm.errors.SettingsError(
            f"{pairs} is a dataset: name a folder for its predictions, as -o predictions/"
        )
    with part_bar(quiet or as_json, "predicting") as done:
        found = predict_dataset(
            model_in_file(file),
            pairs,
            output,
            at=at,
            columns=dataset_columns(reading),
            on_part=done,
        )
    tell_done(found, output, quiet, as_json, "prediction")


def _strangers(found: Any) -> dict[str, int]:
    """How many pairs have an unknown user, an unknown item, or either."""
    import pyarrow.compute as pc

    known = {
        "users": found["known_user"],
        "items": found["known_item"],
        "pairs": pc.and_(found["known_user"], found["known_item"]),
    }
    return {name: len(found) - (pc.sum(column).as_py() or 0) for name, column in known.items()}


def _printable_texts(found: Any) -> Any:
    """An Arrow table for a terminal: ids that would be obeyed there are escaped."""
    import pyarrow as pa

    for place, name in enumerate(found.column_names):
        if pa.types.is_string(found.schema.field(place).type):
            texts = pa.array([printable(text) for text in found[name].to_pylist()], pa.string())
            found = found.set_column(place, name, texts)
    return found


def _are_predictions(file: BinaryIO) -> bool:
    """Whether an open file is one of predictions, csv or parquet."""
    import pyarrow as pa
    from pyarrow import parquet

    if file.read(len(_CSV_BEGIN)) == _CSV_BEGIN:
        return True
    file.seek(0)
    try:
        return parquet.read_schema(file).names[: len(_FIRST)] == list(_FIRST)
    except (pa.ArrowException, OSError, ValueError):
        return False


@contextmanager
def _writer(output: Path | None, as_json: bool, force: bool) -> Iterator[Any]:
    """A function that writes an Arrow table after another, to the file or to stdout."""
    if output is not None:
        ours = None if force else _are_predictions
        with output_file(output, ours) as temporary, _tables_to(temporary, output.suffix) as write:
            yield write
    elif as_json:
        separator = "["

        def write_json(found: Any) -> None:
            nonlocal separator
            for row in found.to_pylist():
                print(separator, json.dumps(json_ready(row)), sep="\n", end="")
                separator = ","

        yield write_json
        print("\n]" if separator == "," else "[]")
    else:
        with _tables_to(sys.stdout.buffer, ".csv") as write:
            shown = sys.stdout.isatty()
            yield lambda found: write(_printable_texts(found) if shown else found)


@contextmanager
def _tables_to(target: Any, suffix: str) -> Iterator[Any]:
    import pyarrow.csv
    import pyarrow.parquet

    kind = pyarrow.csv.CSVWriter if suffix == ".csv" else pyarrow.parquet.ParquetWriter
    writer: Any = None

    def write(found: Any) -> None:
        nonlocal writer
        writer = writer or kind(target, found.schema)
        writer.write_table(found)

    try:
        yield write
    finally:
        if writer is not None:
            writer.close()
