"""Thousands of damaged rating files: a clear error or a right answer, and nothing else.

A plain twin of the readers, line by line, says what is in each damaged text; what the readers say
must account for all of its records.
"""

import csv
import gzip
import io
import re
import zipfile

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import ordbm
from ordbm import Ratings, read_ratings, write_ratings
from ordbm.errors import OrdbmError, RatingsError

N_ROWS = 30
SIGNS = [
    *(b",", b"\t", b"::", b":", b";", b" ", b'"', b'""', b'","', b"\n", b"\r", b"\r\n", b"\n\n"),
    *(b"-", b"7", b"007", b".", b"e9", b"nan", b"1e400", b"9" * 30, b"NULL", b"'", b"#", b"\\"),
    *("é".encode(), "é".encode("latin-1"), "\u2028".encode(), b"\xed\xa0\x80", b"\xef\xbb\xbf"),
    *(b"\0", b"\x1a", b"\x1f", b"\xff\xfe", b"\x1f\x8b", b"PK\x03\x04", b"PAR1"),
    *(b"\n12:\n", b"1,2,3\n"),
]


def rows(rng, text_ids=False):
    users, items = rng.integers(1, 12, N_ROWS), rng.integers(1, 9, N_ROWS)
    stars = rng.integers(1, 11, N_ROWS) / 2
    mark = ["x", "é"] if text_ids else ["", ""]
    return [
        (f"{mark[0]}{user}", f"{mark[1]}{item}", f"{rating:g}")
        for user, item, rating in zip(users, items, stars, strict=True)
    ]


def lines(cells, separator, end="\n", quote=""):
    return "".join(
        separator.join(f"{quote}{cell}{quote}" for cell in row) + end for row in cells
    ).encode()


def netflix(cells):
    parts = []
    for item in sorted({item for _, item, _ in cells}):
        parts.append(f"{item}:\n")
        parts += [f"{user},{stars},2005-09-06\n" for user, other, stars in cells if other == item]
    return "".join(parts).encode()


def texts():
    """Name, layout, header, content of a sound file of each kind."""
    rng = np.random.default_rng(0)
    names = ("user", "item", "rating")
    timed = [(*row, "97830") for row in rows(rng)]
    return [
        ("ratings.csv", "csv", True, lines([names, *rows(rng)], ",")),
        ("ratings.csv", "csv", True, lines([names, *rows(rng, text_ids=True)], ",", "\r\n", '"')),
        ("ratings.csv", "csv", False, lines(rows(rng, text_ids=True), ",")),
        ("ratings.tsv", "tsv", True, lines([names, *rows(rng)], "\t")),
        ("u.data", "tsv", False, lines(timed, "\t")),
        ("ratings.dat", "colons", False, lines(timed, "::")),
        ("ratings.txt", "spaces", False, lines(rows(rng), " ")),
        ("combined_data_1.txt", "netflix", False, netflix(rows(rng))),
    ]


def with_line_repeated(rng, content):
    """One line of `content` left out, or there twice."""
    cut = content.splitlines(keepends=True) or [b""]
    line = int(rng.integers(len(cut)))
    return b"".join([*cut[:line], *[cut[line]] * int(rng.choice([0, 2])), *cut[line + 1 :]])


def damaged(rng, content, other):
    """`content` after one to four accidents; `other` is what pieces of other files come from."""
    for _ in range(int(rng.integers(1, 5))):
        place = int(rng.integers(len(content) + 1))
        length = int(rng.choice([1, 2, 5, 20]))
        start = int(rng.integers(len(other)))
        before, after = content[:place], content[place:]
        flipped = bytes(byte ^ (1 << int(rng.integers(8))) for byte in after[:1])
        accidents = [
            before + flipped + after[1:],
            before + rng.bytes(1) + after[1:],
            before + after[length:],
            before + rng.bytes(length) + after,
            before + SIGNS[int(rng.integers(len(SIGNS)))] + after,
            before + other[start : start + length] + after,
            with_line_repeated(rng, content),
            before,
        ]
        likely = np.array([3, 3, 3, 3, 6, 3, 3, 1])
        content = accidents[rng.choice(len(accidents), p=likely / likely.sum())]
    return content


# -- the plain twin --------------------------------------------------------------------------------


def plain_records(content, layout):
    """(line, fields or None if it cannot be cut) of every record that is not blank."""
    text = content.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape")
    split = re.split(r"\r\n|\r|\n", text)
    if layout == "netflix":
        return netflix_lines(split)
    if layout == "colons":
        cut = [[field.lstrip(" ") for field in line.split("::")] for line in split]
    elif layout == "spaces":
        cut = [[field for field in re.split("[ \t]", line) if field] for line in split]
    else:
        first = next((line for line in split if line.strip(" ")), "")
        signs = "\t" if layout == "tsv" else ",;|"
        return csv_records(text, next((sign for sign in signs if sign in first), signs[0]))
    return [(line, fields) for line, fields in enumerate(cut, 1) if fields not in ([], [""])]


def netflix_lines(split):
    found, movie = [], None
    for number, line in enumerate(split, 1):
        if re.fullmatch(r" *-?[0-9]+: *", line):
            movie = line.strip(" :")
        elif line.strip(" "):
            fields = [field.lstrip(" ") for field in line.split(",")]
            sound = len(fields) == 3 and movie is not None
            found.append((number, [fields[0], movie, fields[1]] if sound else None))
    return found


def csv_records(text, separator):
    reader = csv.reader(
        io.StringIO(text, newline=""), delimiter=separator, skipinitialspace=True, strict=True
    )
    found = []
    while True:
        number = reader.line_num + 1
        try:
            fields = next(reader)
        except StopIteration:
            return found
        except csv.Error:
            fields = None
        if fields not in ([], [""]):
            found.append((number, fields))


def is_number(text):
    text = text.strip(" ")
    try:
        plain = text.isascii() and text == text.strip() and "_" not in text
        return plain and abs(float(text)) <= 1e150
    except ValueError:
        return False


def judged(content, layout, header):
    """The good rows and the lines of the bad ones, as the plain twin sees them."""
    cut = plain_records(content, layout)
    width = 3 if layout == "netflix" else len(cut[0][1] or ()) if cut else 0
    good, bad = [], []
    for line, fields in cut[int(header) :]:
        sound = (
            fields is not None
            and len(fields) == width >= 3
            and all(fields[:3])
            and not re.search("[\udc80-\udcff]", "".join(fields[:3]))
            and is_number(fields[2])
        )
        if sound:
            good.append(fields[:3])
        else:
            bad.append(line)
    return good, bad


def typed(column):
    whole = all(re.fullmatch("0|-?[1-9][0-9]*", text) for text in column)
    return [int(text) for text in column] if whole else column


def assert_same(ratings, good):
    users, items = typed([row[0] for row in good]), typed([row[1] for row in good])
    expected = {
        (user, item): float(row[2]) for user, item, row in zip(users, items, good, strict=True)
    }
    found = {
        (ratings.users[user], ratings.items[item]): value
        for user, item, value in zip(
            ratings.user_codes, ratings.item_codes, ratings.values, strict=True
        )
    }
    assert found.keys() == expected.keys()
    assert len(ratings) + ratings.n_duplicates == len(good)
    # A scale takes numbers as one level that differ by less than this part of the largest.
    slack = 1e-11 * max(abs(float(row[2])) for row in good)
    for pair, value in expected.items():
        assert found[pair] == pytest.approx(value, rel=1e-5, abs=slack)


def read_or_words(path, **told):
    """Ratings, or the words of an error: no other exception."""
    try:
        return read_ratings(path, **told)
    except OrdbmError as problem:
        return str(problem)


@pytest.mark.parametrize("number", range(len(texts())))
def test_damaged_texts_are_read_right_or_refused_with_the_right_lines(tmp_path, number):
    name, layout, header, content = texts()[number]
    others = b"".join(other for *_, other in texts())
    rng = np.random.default_rng(number)
    path = tmp_path / name
    told = {"layout": layout}
    if layout != "netflix":
        told |= {"header": header, "user": 0, "item": 1, "rating": 2}
    n_read = n_reported = 0
    for _ in range(400):
        mutant = damaged(rng, content, others)
        path.write_bytes(mutant)
        good, bad = judged(mutant, layout, header)
        found = read_or_words(path, **told)
        if isinstance(found, Ratings):
            assert not bad
            assert_same(found, good)
            n_read += 1
            continue
        assert "\n" not in found
        counted = re.search(r": ([0-9,]+) lines? cannot be used: line ([0-9]+): ", found)
        if counted:
            assert (int(counted.group(1)), int(counted.group(2))) == (len(bad), bad[0])
            n_reported += 1
        elif "cannot be told apart" in found:
            assert max(abs(float(rating)) for *_, rating in good) > 1e9
        else:
            assert re.search("is empty|has no data|first line|UTF-|damaged|not a column", found)
            assert bad or not good or re.search(rb"[\0\xfe\xff]|^\x1f\x8b|^PK", mutant)
    assert n_read > 20
    assert n_reported > 100


@pytest.mark.parametrize("number", range(len(texts())))
def test_damaged_texts_whose_form_must_be_guessed(tmp_path, number):
    """A guess may be wrong if the first line is damaged, but every line is accounted for."""
    name, *_, content = texts()[number]
    others = b"".join(other for *_, other in texts())
    rng = np.random.default_rng(1000 + number)
    path = tmp_path / name
    n_read = 0
    for _ in range(150):
        mutant = damaged(rng, content, others)
        path.write_bytes(mutant)
        found = read_or_words(path)
        if isinstance(found, Ratings):
            n_read += 1
            split = re.split(rb"\r\n|\r|\n", mutant)
            n_lines = sum(1 for line in split if line.strip(b" \t"))
            if b'"' not in mutant and not re.search(rb"[0-9]:[\r\n]", mutant):
                assert len(found) + found.n_duplicates in (n_lines - 1, n_lines)
        else:
            assert found
    assert 10 < n_read < 140


def sound_ratings():
    cells = rows(np.random.default_rng(5), text_ids=True)
    users, items, stars = zip(*cells, strict=True)
    return Ratings(list(users), list(items), [float(text) for text in stars])


def outcome(path, expected):
    found = read_or_words(path)
    if not isinstance(found, Ratings):
        assert found
        return "refused"
    same = found.users == expected.users and found.items == expected.items
    return "same" if same and np.array_equal(found.values, expected.values) else "other"


@pytest.mark.parametrize("form", ["parquet", "zip", "csv.gz"])
def test_damaged_files_with_checksums_are_refused_or_right(tmp_path, form):
    """Never other ratings than those written: every byte of them is under a checksum."""
    expected = sound_ratings()
    path = tmp_path / f"x.{form}"
    if form == "zip":
        write_ratings(expected, tmp_path / "ratings.csv")
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.write(tmp_path / "ratings.csv", "set/ratings.csv")
    else:
        write_ratings(expected, path)
    expected = read_ratings(path)
    content = path.read_bytes()
    rng = np.random.default_rng(7)
    outcomes = []
    for _ in range(700):
        path.write_bytes(damaged(rng, content, content))
        outcomes.append(outcome(path, expected))
    assert outcomes.count("refused") > 300
    assert "other" not in outcomes


def test_damaged_parquet_without_checksums_never_does_harm(tmp_path):
    expected = sound_ratings()
    path = tmp_path / "x.parquet"
    outcomes = set()
    for compression in ("none", "zstd"):
        parquet.write_table(expected.to_frame("pyarrow"), path, compression=compression)
        content = path.read_bytes()
        rng = np.random.default_rng(8)
        for _ in range(500):
            path.write_bytes(damaged(rng, content, content))
            outcomes.add(outcome(path, expected))
    assert "refused" in outcomes


def test_files_of_noise_are_refused(tmp_path):
    rng = np.random.default_rng(9)
    names = ("x.csv", "u.data", "ratings.dat", "mv_0000001.txt", "x.parquet", "x.zip", "x.tar.gz")
    starts = (b"", b"PK\x03\x04", b"\x1f\x8b\x08\0", b"PAR1", b"1:\n", b"user,item,rating\n")
    for trial in range(300):
        path = tmp_path / names[trial % len(names)]
        path.write_bytes(starts[trial % len(starts)] + rng.bytes(int(rng.integers(0, 400))))
        with pytest.raises(OrdbmError):
            read_ratings(path)


def test_arrow_is_not_asked_to_unpickle(tmp_path):
    """Extension types that carry code stay plain storage."""
    table = pa.table({"user": [1], "item": [1], "rating": [1]})
    field = pa.field(
        "user",
        pa.int64(),
        metadata={"ARROW:extension:name": "arrow.py_extension_type",
                  "ARROW:extension:metadata": b"cos\nsystem\n(S'false'\ntR."},
    )  # fmt: skip
    schema = pa.schema([field, table.schema.field(1), table.schema.field(2)])
    parquet.write_table(table.cast(schema), tmp_path / "x.parquet")
    assert read_ratings(tmp_path / "x.parquet").users.ids == (1,)


def test_the_twin_agrees_on_sound_files(tmp_path):
    for name, layout, header, content in texts():
        (tmp_path / name).write_bytes(content)
        good, bad = judged(content, layout, header)
        assert (len(good), bad) == (N_ROWS, [])
        assert_same(ordbm.read_ratings(tmp_path / name), good)


def test_damaged_gzip_of_text(tmp_path):
    content = gzip.compress(texts()[0][-1])
    path = tmp_path / "x.csv.gz"
    for length in range(len(content)):
        path.write_bytes(content[:length])
        with pytest.raises(RatingsError):
            read_ratings(path)
