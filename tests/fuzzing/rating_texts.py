"""Rating files as text, accidents to them, and a plain reading of them, line by line.

The plain reading is the twin of the readers: it says what is in each damaged text, and what the
readers say must account for all of its records.
"""

import csv
import datetime as dt
import io
import math
import re

import numpy as np

from ordbm import read_ratings
from ordbm.errors import OrdbmError

N_ROWS = 30
FINER = ((1e17, 1e9), (1e14, 1e6), (1e11, 1e3))
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
        return csv_records(text, "\t" if layout == "tsv" else csv_sign(first))
    return [(line, fields) for line, fields in enumerate(cut, 1) if fields not in ([], [""])]


def netflix_lines(split):
    found, movie = [], None
    for number, line in enumerate(split, 1):
        if re.fullmatch(r" *-?[0-9]+: *", line):
            movie = line.strip(" :")
        elif line.strip(" "):
            fields = [field.lstrip(" ") for field in line.split(",")]
            sound = len(fields) == 3 and movie is not None
            found.append((number, [fields[0], movie, *fields[1:]] if sound else None))
    return found


def csv_sign(first):
    """What separates the fields of a csv, by its first line: in `1;2;4,5` no comma does."""
    if first.count(",") == 1:
        return next((sign for sign in ";|" if first.count(sign) >= 2), ",")
    return next((sign for sign in ",;|" if sign in first), ",")


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


def with_decimal_points(records):
    """`4,5` is 4.5 where no rating has a point, and not all commas may stand between thousands."""
    ratings = [fields[2] for _, fields in records if fields]
    commas = [re.fullmatch(" *[+-]?[0-9]+,([0-9]+) *", rating) for rating in ratings]
    if any("." in one for one in ratings) or all(not one or len(one[1]) == 3 for one in commas):
        return records
    pointed = iter(
        rating.replace(",", ".") if comma else rating
        for rating, comma in zip(ratings, commas, strict=True)
    )
    return [
        (line, fields and [*fields[:2], next(pointed), *fields[3:]]) for line, fields in records
    ]


def moment(text):
    """The seconds since 1970 that an ISO 8601 text is, UTC if it does not say; NaN if it is none.

    A number is itself.
    """
    if is_number(text):
        return float(text)
    try:
        when = dt.datetime.fromisoformat(text.strip())
    except ValueError:
        return math.nan
    return (when if when.tzinfo else when.replace(tzinfo=dt.UTC)).timestamp()


def in_seconds(texts):
    """Times as seconds: numbers past the year 5000 are finer, all by the largest."""
    numbers = [abs(float(text)) for text in texts if is_number(text)]
    finer = next((by for least, by in FINER if max(numbers, default=0.0) >= least), 1.0)
    return [moment(text) / (finer if is_number(text) else 1.0) for text in texts]


def judged(content, layout, header, timed=False):
    """The good rows and the lines of the bad ones, as the plain twin sees them.

    A row is user, item and rating, and with `timed` the time, all as text.
    """
    n_fields = 4 if timed else 3
    cut = plain_records(content, layout)
    width = 4 if layout == "netflix" else len(cut[0][1] or ()) if cut else 0
    whole = [
        (line, fields if fields and len(fields) == width >= n_fields else None)
        for line, fields in cut[int(header) :]
    ]
    good, bad = [], []
    for line, fields in with_decimal_points(whole):
        sound = (
            fields is not None
            and all(fields[:3])
            and not re.search("[\udc80-\udcff]", "".join(fields[:n_fields]))
            and is_number(fields[2])
            and not (timed and math.isnan(moment(fields[3])))
        )
        if sound:
            good.append(fields[:n_fields])
        else:
            bad.append(line)
    return good, bad


def typed(column):
    """Integers if all are, or if all are with `.0` behind; otherwise text."""
    for behind in ("", ".0"):
        if all(re.fullmatch(rf"(0|-?[1-9][0-9]*){re.escape(behind)}", text) for text in column):
            return [int(text.removesuffix(behind)) for text in column]
    return column


def assert_same(ratings, good):
    users, items = typed([row[0] for row in good]), typed([row[1] for row in good])
    given = list(zip(users, items, good, strict=True))
    if len(good[0]) > 3:  # the latest of a pair stays, the last row of those of one time
        when = in_seconds([row[3] for row in good])
        given = [given[place] for place in sorted(range(len(good)), key=lambda p: (when[p], p))]
        latest = {given_one[:2]: time for given_one, time in zip(given, sorted(when), strict=True)}
        times = [latest[ratings.users[u], ratings.items[i]]
                 for u, i in zip(ratings.user_codes, ratings.item_codes, strict=True)]  # fmt: skip
        np.testing.assert_allclose(ratings.times, times, rtol=1e-9)
    expected = {(user, item): float(row[2]) for user, item, row in given}
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
        assert math.isclose(found[pair], value, rel_tol=1e-5, abs_tol=slack), (pair, value)


def read_or_words(path, **told):
    """Ratings, or the words of an error: no other exception."""
    try:
        return read_ratings(path, **told)
    except OrdbmError as problem:
        return str(problem)
