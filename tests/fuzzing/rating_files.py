"""Rating files of every layout: damaged, oddly written, compressed, in archives, as parquet."""

import gzip
import io
import random
import re
import tarfile
import zipfile
from functools import cache

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from fuzzing.kinds import READ, REFUSED, Input, Kind
from fuzzing.rating_texts import (
    assert_same,
    damaged,
    judged,
    lines,
    netflix,
    texts,
)
from ordbm import Ratings, read_ratings
from ordbm.errors import RatingsError

SEPARATORS = {"csv": ",", "tsv": "\t", "colons": "::", "spaces": " "}
NAMES = {
    "csv": ["ratings.csv", "ratings.txt"],
    "tsv": ["ratings.tsv", "u.data"],
    "colons": ["ratings.dat"],
    "spaces": ["ratings.txt", "filmtrust.txt"],
    "netflix": ["combined_data_1.txt", "mv_0000001.txt"],
}
IDS = [
    *("1", "2", "3", "12", "007", "-5", "0", "9223372036854775807", "9223372036854775808", "1e3"),
    *(
        "1.0",
        "a",
        "é",
        "Zoë",
        "日本",
        "a b",
        "O'Neil",
        "x,y",
        'say "hi"',
        "a;b",
        "#1",
        "NULL",
        "nan",
    ),
    *("\u00a0", "\u2028", "+1", "١", "True", "None", "a\tb", "a|b", "::", "=1+1", "\x07"),
]
NUMBERS = [
    *("1", "2", "3", "4", "5", "0.5", "4.5", "3.0", "1e0", "+3", "-1", ".5", "5.", "05", "1E1"),
    *("3,5", "nan", "inf", "-inf", "", " 4", "4 ", "1_0", "0x10", "٣", "1e400", "1e-400", "five"),
    *("1e149", "1e151", "-0", "0.1", "0.30000000000000004", "100", "2.50", "NaN", "1,000", "3/5"),
]
TIMES = [
    *("1", "2", "97830", "978300760", "978300761.5", "2001-02-03", "1e9", "-5", "+7", "05", ".5"),
    *("978300760000", "978300760000000", "978300760000000000", "1e18", "1e150", "2001-02-03T04:05"),
    *("2001-02-03T04:05:06Z", "2001-02-03 04:05:06+02:00", "2001-02-03T04:05:06.25", "20010203"),
    *(
        "",
        "nan",
        "inf",
        "soon",
        "2001-13-01",
        "03/02/2001",
        " 4",
        "4 ",
        "1_0",
        "0001-01-01",
        "1e400",
    ),
    *("9999-12-31T23:59:59", "2001-W05-6", "٣", "NaT", "None", "True", "2001-02-03\t"),
]


def rng_of(state: random.Random) -> np.random.Generator:
    return np.random.default_rng(state.getrandbits(64))


@cache
def sound_texts():
    return texts(), b"".join(other for *_, other in texts())


def damaged_text(state: random.Random) -> Input:
    """A sound file after some accidents."""
    all_texts, others = sound_texts()
    name, layout, header, content = state.choice(all_texts)
    return Input(name, damaged(rng_of(state), content, others), (layout, header))


def odd_text(state: random.Random, timed: bool = False) -> Input:
    """Lines of odd ids and odd numbers, mostly common ones, written as their layout has it."""
    layout = state.choice([name for name in NAMES if name != "netflix" or not timed])
    odd = state.choice([0.0, 0.0, 0.03, 0.2])
    ids = (
        IDS[state.randrange(len(IDS)) :][:4] if state.random() < odd * 3 else ["1", "2", "3", "12"]
    )

    def cell(usual, strange):
        return state.choice(strange) if state.random() < odd / 3 else state.choice(usual)

    cells = [
        (cell(ids, IDS), cell(ids, IDS), cell(NUMBERS[:5], NUMBERS), cell(TIMES[:6], TIMES))[
            : 4 if timed else 3
        ]
        for _ in range(state.choice([1, 2, 5, 30]))
    ]
    header = layout != "netflix" and state.random() < 0.5
    end = state.choice(["\n", "\n", "\r\n", "\r"])
    if layout == "netflix":
        content = netflix(cells).replace(b"\n", end.encode())
    else:
        named = [("user", "item", "rating", "time")[: len(cells[0])]] if header else []
        quote = state.choice(["", "", '"']) if layout == "csv" else ""
        content = lines([*named, *cells], SEPARATORS[layout], end, quote)
    mark = state.choice([b"", b"", b"", b"\xef\xbb\xbf"])
    if state.random() < 0.1:
        content = content.rstrip(b"\r\n")
    return Input(state.choice(NAMES[layout]), mark + content, (layout, header))


def timed_text(state: random.Random) -> Input:
    """The same with a fourth column of times, which may then be damaged too."""
    given = odd_text(state, timed=True)
    if state.random() < 0.5:
        return given
    _, others = sound_texts()
    return given._replace(content=damaged(rng_of(state), given.content, others))


def packed_text(state: random.Random) -> Input:
    """A text as it is, or compressed, or in an archive, and then perhaps damaged again."""
    name, content, told = state.choice([damaged_text, odd_text])(state)
    form = state.choice(["gz", "zip", "tar.gz", "zip of gz"])
    if form == "gz":
        return Input(f"{name}.gz", gzip.compress(content, 1, mtime=0), (*told, content))
    if form == "tar.gz":
        room = io.BytesIO()
        with tarfile.open(fileobj=room, mode="w:gz", compresslevel=1) as archive:
            entry = tarfile.TarInfo(f"set/{name}")
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
        return Input("set.tar.gz", room.getvalue(), (*told, content))
    room = io.BytesIO()
    with zipfile.ZipFile(room, "w", zipfile.ZIP_DEFLATED) as archive:
        if form == "zip":
            archive.writestr(f"set/{name}", content)
        else:
            archive.writestr(f"set/{name}.gz", gzip.compress(content, 1, mtime=0))
    return Input("set.zip", room.getvalue(), (*told, content))


def judge_timed(given: Input, folder) -> str:
    """The same for a text with times in its fourth column."""
    return judge_text(given, folder, timed=True)


def judge_text(given: Input, folder, timed: bool = False) -> str:
    """Read as the plain twin reads it, or refused where the twin finds fault."""
    layout, header, *original = given.told
    content = original[0] if original else given.content
    path = folder / given.name
    path.write_bytes(given.content)
    told = {"layout": layout, "time": 3 if timed else False}
    if layout != "netflix":
        told |= {"header": header, "user": 0, "item": 1, "rating": 2}
    good, bad = judged(content, layout, header, timed)
    try:
        found = read_ratings(path, **told)
    except RatingsError as error:
        words = str(error)
        counted = re.search(r": ([0-9,]+) lines? cannot be used: line ([0-9]+): ", words)
        if counted:
            lost = int(counted.group(1).replace(",", "")), int(counted.group(2))
            assert lost == (len(bad), bad[0]), (lost, bad)
        elif not re.search("cannot be told apart|must be distinct", words):
            assert re.search("is empty|has no data|first line|UTF-|damaged|not a column", words), (
                words
            )
            assert bad or not good or re.search(rb"[\0\xfe\xff]|^\x1f\x8b|^PK", content), words
        return REFUSED
    assert not bad, bad
    assert_same(found, good)
    return READ


def judge_guessed(given: Input, folder) -> str:
    """Nothing is told of the form: every line is accounted for."""
    path = folder / given.name
    path.write_bytes(given.content)
    found = read_ratings(path)
    split = re.split(rb"\r\n|\r|\n", given.content)
    n_lines = sum(1 for line in split if line.strip(b" \t"))
    plain = not re.search(rb'"|\0|[0-9]: *([\r\n]|$)|^(PAR1|PK|\x1f\x8b)', given.content)
    if plain:
        assert len(found) + found.n_duplicates in (n_lines - 1, n_lines), (len(found), n_lines)
    assert np.isfinite(found.values).all()
    return READ


# -- files with checksums, and parquet ------------------------------------------------------------


@cache
def sealed():
    """Files whose every byte of ratings is under a checksum, and what is in each."""
    content = sound_texts()[0][0][-1]
    room = io.BytesIO()
    with zipfile.ZipFile(room, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("set/ratings.csv", content)
    return [("x.csv.gz", gzip.compress(content, mtime=0)), ("x.zip", room.getvalue())]


def sealed_file(state: random.Random) -> Input:
    name, content = state.choice(sealed())
    return Input(name, damaged(rng_of(state), content, content))


def judge_sealed(given: Input, folder) -> str:
    """Never other ratings than those written."""
    path = folder / given.name
    path.write_bytes(given.content)
    found = read_ratings(path)
    good, _ = judged(sound_texts()[0][0][-1], "csv", True)
    assert_same(found, good)
    return READ


@cache
def tables():
    rng = np.random.default_rng(3)
    users, items = rng.integers(1, 9, 30), rng.integers(1, 9, 30)
    names = pa.array([f"n{user}" for user in users])
    stars = rng.integers(1, 6, 30)
    columns = [
        {"user": users, "item": items, "rating": stars},
        {"user": names, "item": items, "rating": stars / 2},
        {"user": names.dictionary_encode(), "item": items, "rating": stars.astype("f4")},
    ]
    found = []
    for table in map(pa.table, columns):
        for compression in ("none", "zstd", "snappy"):
            room = io.BytesIO()
            parquet.write_table(table, room, compression=compression)
            found.append(room.getvalue())
    return found


ODD_COLUMNS = [
    pa.array([1, 2, None]), pa.array([1.5, float("nan"), 2.0]), pa.array(["a", None, "b"]),
    pa.array([[1], [2], [3]]), pa.array([{"a": 1}] * 3), pa.array([True, False, True]),
    pa.array([b"a", b"\xff", b""]), pa.array([1, 2, 3], pa.timestamp("ns")), pa.nulls(3),
    pa.array([2**63, 2**64 - 1, 0], pa.uint64()), pa.array(["a", "b", "a"]).dictionary_encode(),
    pa.array([1, 2, 3], pa.decimal128(20, 2)), pa.array([1, 2, 3], pa.float16()),
    pa.array([1, 2, 3], pa.int8()), pa.array(["5", "4", "x"]), pa.array(["", " ", "\0"]),
    pa.array([1, 2, 3]), pa.array(["u", "v", "w"]), pa.array([1e300, -1e300, 5e-324]),
]  # fmt: skip


def parquet_file(state: random.Random) -> Input:
    """A parquet file damaged, or sound with columns of odd types."""
    if state.random() < 0.6:
        whole = state.choice(tables())
        return Input("x.parquet", damaged(rng_of(state), whole, whole))
    names = state.sample(["user", "item", "rating", "time", "userId", "stars"], 3)
    if state.random() < 0.8:
        names = ["user", "item", "rating"]
    room = io.BytesIO()
    usual = [pa.array([1, 2, 3]), pa.array(["u", "v", "w"])]
    columns = [state.choice(usual + ODD_COLUMNS * (state.random() < 0.5)) for _ in names]
    parquet.write_table(pa.table(columns, names), room)
    return Input("x.parquet", room.getvalue())


def judge_parquet(given: Input, folder) -> str:
    path = folder / given.name
    path.write_bytes(given.content)
    found = read_ratings(path)
    assert len(found) + found.n_duplicates == parquet.ParquetFile(path).metadata.num_rows
    assert np.isfinite(found.values).all()
    return READ


# -- ratings in memory ----------------------------------------------------------------------------

VALUES = [
    1, 2, 3, 0, -1, 2.5, 1e149, 1e151, 1e300, 5e-324, 1e-200, float("nan"), float("inf"), None, "",
    "a", "3", True, 2**63 - 1, -(2**63), 2**64, 10**400, 1j, b"1", [], (1,), {}, np.float32(3.5),
    np.int8(3), np.bool_(True), np.datetime64("2020-01-01"), 0.1, 0.30000000000000004, 1e15, 1e16,
]  # fmt: skip
SCALES = [
    None, None, "continuous", [1, 2, 3], ["a", "b"], [], "x", 5, [1, 1], [3, 2, 1], ["a", 1],
    [float("nan")], list(range(1, 256)), list(range(1, 257)), [1e150, -1e150], [1e-300, 2e-300],
]  # fmt: skip


def odd_ratings(state: random.Random) -> Input:
    usual = state.choice([[1, 2, 3], [0.5, 1, 4.5], VALUES])
    n = state.choice([0, 1, 3, 10, 150])
    odd = state.choice([0, 0, 0.05])
    columns = [
        [state.choice(VALUES) if state.random() < odd else state.choice(one) for _ in range(n)]
        for one in ([1, 2, 3, "a"], [1, 2, 3], usual)
    ]
    if state.random() < 0.05:
        columns[0] = columns[0][:-1]
    return Input(told=(columns, state.choice(SCALES)))


def judge_ratings(given: Input, _) -> str:
    (users, items, values), scale = given.told
    found = Ratings(users, items, values, scale)
    assert len(found) + found.n_duplicates == len(values)
    assert np.isfinite(found.values).all()
    return READ


KINDS = [
    Kind("text, layout told", 220, lambda s: s.choice([damaged_text, odd_text])(s), judge_text),
    Kind("text, layout found", 160, lambda s: s.choice([damaged_text, odd_text])(s), judge_guessed),
    Kind("text with times", 220, timed_text, judge_timed),
    Kind("text in gz, zip, tar", 60, packed_text, judge_text),
    Kind("damaged gz and zip", 80, sealed_file, judge_sealed),
    Kind("parquet", 60, parquet_file, judge_parquet),
    Kind("columns in memory", 120, odd_ratings, judge_ratings),
]
