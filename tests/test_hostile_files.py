"""Files that mean harm: little memory, and a sentence that says what was found, where."""

import io
import tracemalloc
import zipfile

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import hostile_files as hostile
from cli_runs import answer, fault, json_answer, run
from ordbm import OrdinalBM, Ratings, read_ratings
from ordbm.cli.output import LiteralConsole, facts, table
from ordbm.data.ids import MOST_ALIKE, IdMap
from ordbm.datasets import ReadLimits, delimited, parquet_pages, read_titles
from ordbm.datasets.thrift_structs import StructReader, StructShape
from ordbm.errors import RatingsError, SettingsError
from ordbm.runtime.printable import printable

MOST_MEMORY = 600 * 10**6  # bytes, of which Python and its libraries take 135 million
SAID = {
    "claiming.zip": "claiming.zip (ratings.csv) unpacks to more than 33,554,432 bytes",
    "repeating.zip": "several files called 'mv_0000001.txt': refused",
    "crowded.zip": "has more than 1,000,000 rows",
    "bomb.zip": "limits=ReadLimits(bytes=...)",
    "lines.zip": "999,899 ratings read",
    "nested.zip": "nested.zip (ratings.csv.gz) unpacks to more",
    "bomb.csv.gz": "unpacks to more than 33,554,432 bytes",
    "blank.csv.gz": "give limits=ReadLimits(rows=...)",
    "wide.csv.gz": "the first line is longer than 1,048,576 bytes",
    "quotes.csv.gz": "line 2: it is longer than 1,048,576 characters",
    "fields.csv.gz": "line 2: it is longer than 1,048,576 characters",
    "records.csv.gz": "has more than 1,000,000 rows",
    "long.dat.gz": "line 2: it is longer than 1,048,576 characters",
    "astral.csv.gz": "line 2: it is longer than 1,048,576 characters",
    "movies.txt.gz": "has more than 1,000,000 rows",
    "sparse.tar.gz": "sparse.tar.gz (ratings.csv) unpacks to more",
    "crowded.tar.gz": "unpacks to more than 33,554,432 bytes",
    "text.parquet": "40,000 ratings read",
    "delta.parquet": "4,000 ratings read",
    "rows.parquet": "limits=ReadLimits(rows=...)",
    "page.parquet": "has more than 1,000,000 rows",
    "ids.parquet": "1,000,000 ratings read",
    "footer.parquet": "unpacks to more than",
    "colliding.csv": "50,000 users have one hash",
}


def test_hostile_ratings_take_little_memory_and_are_named(tmp_path):
    paths = [tmp_path / name for name in SAID]
    for path in paths:
        smaller = {"rows.parquet": {"groups": 1}, "claiming.zip": {"times": 5}}
        hostile.RATINGS[path.name](path, **smaller.get(path.name, {}))
    said, peaks = hostile.said_and_peaks("ratings", *paths)
    for (name, words), sentence, peak in zip(SAID.items(), said, peaks, strict=True):
        assert words in sentence, name
        assert peak < MOST_MEMORY, name


def test_hostile_titles_take_little_memory_and_are_named(tmp_path):
    for what, builders in (("titles", hostile.TITLES), ("items", hostile.ITEMS)):
        for name, build in builders.items():
            build(tmp_path / name)
            (said,), (peak,) = hostile.said_and_peaks(what, tmp_path / name)
            assert "more than" in said or "longer than" in said
            assert "limits" not in said  # there is no such option
            assert peak < MOST_MEMORY


# -- limits ----------------------------------------------------------------------------------------


def zipped(path, **members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.csv", content)
    return path


def test_limits_are_raised_and_lowered(tmp_path):
    path = zipped(
        tmp_path / "x.zip", ratings="user,item,rating\n1,2,3\n2,2,4\n", more="a", less="b"
    )
    for limits, what in (
        (ReadLimits(rows=2), "rows"),
        (ReadLimits(bytes=20), "bytes"),
        (ReadLimits(members=2), "members"),
    ):
        with pytest.raises(RatingsError, match=rf"x\.zip.* more than .* {what}, .*\({what}=\.\.\."):
            read_ratings(path, limits=limits)
        option = f"--max-{what}"
        most = str(getattr(limits, what))
        words = fault("data", "convert", path, tmp_path / "y.csv", option, most)
        assert f"if you trust it, give {option}" in words
    assert len(read_ratings(path, limits=ReadLimits(rows=4, bytes=100, members=3))) == 2
    told = json_answer("data", "convert", path, tmp_path / "y.csv", "--max-rows", "4")
    assert told["ratings"]["ratings"] == 2


def test_limits_count_all_members_together(tmp_path):
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for movie in range(1, 9):
            archive.writestr(f"mv_{movie:07}.txt", f"{movie}:\n1,3,2005-01-01\n")
    assert len(read_ratings(path, limits=ReadLimits(rows=24))) == 8
    with pytest.raises(RatingsError, match=r"mv_0000008\.txt\) has more than 23 rows"):
        read_ratings(path, limits=ReadLimits(rows=23))


@pytest.mark.parametrize("wrong", [{"rows": 0}, {"bytes": 1.5}, {"members": -1}], ids=str)
def test_limits_are_checked(wrong):
    with pytest.raises(SettingsError, match="whole number, 1 or more"):
        ReadLimits(**wrong)
    with pytest.raises(SettingsError, match="give ReadLimits"):
        read_ratings("x.csv", limits=10)


@pytest.mark.parametrize("kind", ["STORED", "DEFLATED", "BZIP2", "LZMA"])
def test_every_kind_of_zip_is_read_and_its_checksum_compared(tmp_path, kind):
    path = tmp_path / "x.zip"
    lines = "".join(f"{row},{row % 7},{row % 5}\n" for row in range(3_000))
    with zipfile.ZipFile(path, "w", getattr(zipfile, f"ZIP_{kind}")) as archive:
        archive.writestr("ratings.csv", lines)
    assert len(read_ratings(path)) == 3_000
    content = bytearray(path.read_bytes())
    content[content.find(b"PK\x01\x02") + 16] ^= 1  # of the checksum
    path.write_bytes(content)
    with pytest.raises(RatingsError, match=r"x\.zip \(ratings\.csv\) is damaged"):
        read_ratings(path)


@pytest.mark.parametrize("encoding", ["DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY", "PLAIN", None])
def test_text_of_every_encoding_is_read(tmp_path, encoding):
    users = [f"user-{row % 30}" for row in range(900)]
    columns = pa.table(
        {"user": users, "item": range(900), "rating": [row % 5 for row in range(900)]}
    )
    how = {"use_dictionary": False, "column_encoding": {"user": encoding}} if encoding else {}
    for version in ("1.0", "2.0"):
        parquet.write_table(
            columns, tmp_path / "x.parquet", data_page_version=version, row_group_size=400, **how
        )
        ratings = read_ratings(tmp_path / "x.parquet")
        assert [ratings.users[code] for code in ratings.user_codes] == sorted(
            users, key=ratings.users.ids.index
        )


def test_a_dictionary_may_hold_what_no_row_has(tmp_path):
    users = pa.DictionaryArray.from_arrays(pa.array([1, 2, 1], pa.int8()), ["", "b", "a"])
    columns = pa.table({"user": users, "item": [1, 2, 3], "rating": [1, 2, 3]})
    parquet.write_table(columns, tmp_path / "x.parquet")
    assert read_ratings(tmp_path / "x.parquet").users.ids == ("b", "a")


# -- the first line --------------------------------------------------------------------------------


@pytest.mark.parametrize("before", ["", "\n" * 100_000])
def test_a_long_header_is_read_whole(tmp_path, before):
    names = ["user", *(f"note-{column:05}" for column in range(9_000)), "item", "rating"]
    row = ["7", *[""] * 9_000, "8", "3"]
    path = tmp_path / "x.csv"
    path.write_text(f"{before}{','.join(names)}\n{','.join(row)}\n")
    assert len(",".join(names)) > 64 * 1024
    ratings = read_ratings(path)
    assert (ratings.users.ids, ratings.items.ids) == ((7,), (8,))
    with pytest.raises(RatingsError, match=f"line {len(before) + 2}: the rating '' is empty"):
        read_ratings(path, user="user", item="item", rating=5)
    with path.open("a") as file:
        file.write(",".join(row) + "\n")
    with pytest.raises(RatingsError, match=f"again in row 1 .*; row 0 is line {len(before) + 2}"):
        read_ratings(path, duplicates="error")


def test_a_header_beyond_the_longest_record_is_refused(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("user,item,rating" + "," * delimited.LONGEST_RECORD + "\n1,2,3\n")
    with pytest.raises(RatingsError, match="the first line is longer than 1,048,576 bytes"):
        read_ratings(path)


# -- ids of one hash -------------------------------------------------------------------------------


def test_many_ids_of_one_hash_are_refused_before_any_are_compared(tmp_path):
    class Counting(int):
        compared = 0
        __hash__ = int.__hash__

        def __eq__(self, other):
            type(self).compared += 1
            return int(self) == int(other)

    few = [Counting(row * hostile.COLLIDING) for row in range(9, 9 + MOST_ALIKE)]
    assert len(IdMap.of(few)[0]) == MOST_ALIKE
    Counting.compared = 0
    many = [Counting(row * hostile.COLLIDING) for row in range(9, 5_009)]
    with pytest.raises(RatingsError, match=r"5,000 users have one hash.*as text"):
        IdMap.of(many, "users")
    with pytest.raises(RatingsError, match="have one hash"):
        IdMap(tuple(many)).codes([1])
    assert Counting.compared == 0
    (tmp_path / "movies.csv").write_text("".join(f"{int(one)},x\n" for one in many))
    with pytest.raises(RatingsError, match="have one hash"):
        read_titles(tmp_path / "movies.csv")
    assert len(IdMap.of([2**64 + row for row in range(5_000)])[0]) == 5_000


# -- what a terminal would obey --------------------------------------------------------------------

NASTY = "a\x1b[31m\x9b2J\u202eb\r\n\tc[bold]d[/link=x]\x07\ufeff\udc80"
SHOWN = r"a\x1b[31m\x9b2J\u202eb\r\n\tc[bold]d[/link=x]\x07\ufeff\udc80"


def test_what_a_terminal_would_obey_is_escaped():
    assert printable(NASTY) == SHOWN
    assert printable(SHOWN) == SHOWN
    plain = "Amélie \u201c李\u201d \U0001f468\u200d\U0001f469 \\x1b\xa0"
    assert printable(plain) == plain
    assert str(RatingsError(f"no {NASTY}")) == f"no {SHOWN}"


def test_consoles_and_tables_show_texts_literally():
    screen = LiteralConsole(file=io.StringIO(), width=300, force_terminal=False)
    screen.print(NASTY)
    screen.print("one", NASTY, sep="\n")
    screen.print(table([NASTY], [[NASTY]], title=NASTY))
    screen.print(facts({NASTY: NASTY}))
    shown = screen.file.getvalue()
    assert shown.count(SHOWN) == 7
    assert shown.replace("\n", "").isprintable()


@pytest.fixture(scope="module")
def nasty_set(tmp_path_factory):
    """A model whose ids, labels and titles are nasty, the titles file and the model's path."""
    folder = tmp_path_factory.mktemp("na\x1bsty")
    nasty = NASTY.replace("\udc80", "")
    items = [f"{nasty}{item}" for item in range(12)]
    random = np.random.default_rng(0)
    users = [f"{nasty}{user}" for user in range(10) for _ in range(8)]
    rated = [items[place] for _ in range(10) for place in random.choice(12, 8, replace=False)]
    labels = [f"low{nasty}", f"high{nasty}"]
    values = [labels[level] for level in random.integers(0, 2, 80)]
    model = OrdinalBM(hidden=2, members=1, epochs=2, item_links=2)
    model.fit(Ratings(users, rated, values, scale=labels))
    model.save(folder / "m.ordbm")
    quoted = [item.replace('"', '""') for item in items]
    (folder / "titles.csv").write_bytes(
        "".join(f'"{item}","t{nasty}"\n' for item in quoted).encode()
    )
    return folder, users[0], items[0]


def test_commands_show_nothing_that_a_terminal_would_obey(nasty_set):
    folder, user, item = nasty_set
    model, titles = folder / "m.ordbm", folder / "titles.csv"
    for command in (
        ("recommend", model, "--user", user, "--titles", titles, "--explain"),
        ("recommend", model, "--user", user),
        ("explain", model, "--user", user, "--item", item, "--titles", titles),
        ("inspect", model, "--titles", titles, "--item", item),
    ):
        said = answer(*command)
        assert r"a\x1b[31m\x9b2J\u202eb\r\n\tc[bold]d[/link=x]" in said.replace("\n", "") or (
            r"\x1b[31m" in said
        )
        assert said.replace("\n", "").isprintable()
    for command in (
        ("recommend", model, "--user", f"{NASTY}?"),
        ("fit", folder / f"{NASTY}.csv", "-o", folder / "n.ordbm"),
        ("recommend", model, "--user", user, "--items", titles, "--where", f"{NASTY}=1"),
        ("fit", "movielens-small", "-o", folder / NASTY / "x"),
        ("data", "get", NASTY),
        (NASTY,),
    ):
        done = run(*command)
        assert done.exit_code == 2
        assert done.stderr.replace("\n", "").isprintable()
        assert r"\x1b[31m" in done.stderr


def test_files_and_json_keep_the_true_text(nasty_set, tmp_path):
    folder, user, _ = nasty_set
    found = json_answer("recommend", folder / "m.ordbm", "--user", user)
    assert found["user"] == user
    pairs = tmp_path / "pairs.csv"
    pairs.write_bytes(f'user,item\n"{user}","x"\n'.encode())
    answer("predict", folder / "m.ordbm", pairs, "-o", tmp_path / "p.parquet", "--quiet")
    assert parquet.read_table(tmp_path / "p.parquet")["user"].to_pylist() == [user]


def test_lzma_in_a_zip_is_unpacked_a_little_at_a_time(tmp_path):
    hostile.zip_of_repeats(tmp_path / "z.zip", "r.csv", b"\n" * 2**20, 128, zipfile.ZIP_LZMA)
    tracemalloc.start()
    try:
        with pytest.raises(RatingsError, match="unpacks to more than 33,554,432 bytes"):
            read_ratings(tmp_path / "z.zip")
        assert tracemalloc.get_traced_memory()[1] < 2**27  # what it would unpack to
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("shape", "struct"),
    [
        (parquet_pages._COLUMN, b"\x89\x18\x01x\x00"),  # field 8: a list of one text
        (parquet_pages._COLUMN, b"\xd9\x18\x01x\x00"),  # field 13
        (parquet_pages._CHUNK, b"\x8c\x2c\x19\x1c\x00\x00\x00\x00"),  # in 8, in 2: one struct
    ],
)
def test_lists_of_a_footer_hold_what_they_should(shape, struct):
    """Another reader may make something else of them."""
    with pytest.raises(ValueError, match="a list holds something else than it should"):
        StructReader(struct).struct(shape)


def test_numbers_have_64_bits():
    assert StructReader(b"\x16" + b"\xff" * 9 + b"\x01\x00").struct(StructShape()) == {1: -(2**63)}
    with pytest.raises(ValueError, match="a number is beyond 64 bits"):
        StructReader(b"\x16" + b"\xff" * 10 + b"\x01\x00").struct(StructShape())


@pytest.mark.parametrize("size", [0, 1, 14, 15, 16, 200])
def test_lists_of_any_length_are_read(size):
    head = (
        [size << 4 | 5] if size < 15 else [0xF5, *([size] if size < 128 else [size & 127 | 128, 1])]
    )
    struct = bytes([0x19, *head, *[6] * size, 0x15, 8, 0])  # a list of threes, and a four
    assert StructReader(struct).struct(StructShape()) == {1: [3] * size, 2: 4}
