"""Rating files as people have them: what is read, and what is said of what cannot be read."""

import gzip
import io
import re
import tarfile
import zipfile
import zlib
from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pyarrow import parquet

from ordbm import Ratings, RatingScale, read_ratings, write_ratings
from ordbm.data.ids import IdMap
from ordbm.datasets import matched_ids, read_pairs, read_titles, unpacking
from ordbm.datasets import record_checks as checking
from ordbm.datasets.delimited import ArrowTexts, arrow_columns, records
from ordbm.datasets.limits import Budget
from ordbm.datasets.netflix import netflix_columns, netflix_records
from ordbm.datasets.titles import read_item_table, read_title_table
from ordbm.errors import RatingsError, SettingsError

PLAIN = "user,item,rating\n1,10,5\n2,20,3\n1,20,4\n"


@pytest.fixture
def written(tmp_path):
    """A function that writes a file and gives its path."""

    def write(content, name="ratings.csv"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


def triples(ratings):
    """The ratings as a set of (user, item, rating)."""
    return set(
        zip(
            (ratings.users[code] for code in ratings.user_codes),
            (ratings.items[code] for code in ratings.item_codes),
            ratings.values.tolist(),
            strict=True,
        )
    )


EXPECTED = {(1, 10, 5.0), (2, 20, 3.0), (1, 20, 4.0)}


# -- layouts ---------------------------------------------------------------------------------------

LAYOUTS = {
    "u.data": "1\t10\t5\t881250949\n2\t20\t3\t891717742\n1\t20\t4\t878887116\n",
    "ratings.dat": "1::10::5::978300760\n2::20::3::978302109\n1::20::4::978301968\n",
    "ratings.csv": "userId,movieId,rating,timestamp\r\n1,10,5.0,1\r\n2,20,3.0,2\r\n1,20,4.0,3\r\n",
    "combined_data_1.txt": "10:\n1,5,2005-09-06\n20:\n2,3,2005-05-13\n1,4,2005-10-19\n",
    "ratings.txt": "1 10 5\n2  20\t3 \n 1 20 4",
    "stars.tsv": "item\tstars\tcustomer\n10\t5\t1\n20\t3\t2\n20\t4\t1\n",
}


@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("form", ["file", "folder", "nested", "zip", "tar", "tar.gz", "gz"])
def test_layouts_are_read_alone_in_folders_and_in_archives(tmp_path, written, name, form):
    content = LAYOUTS[name].encode()
    path = written(content, f"set/inner/{name}")
    written("Licence and so on.", "set/inner/README")
    if form == "zip":
        path = tmp_path / "set.zip"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("set/README", "Licence, and so on.")
            archive.writestr(f"__MACOSX/set/._{name}", b"\0\1")
            archive.writestr(f"set/{name}", content)
    elif form.startswith("tar"):
        path = tmp_path / f"set.{form}"
        with tarfile.open(path, "w:gz" if form.endswith("gz") else "w") as archive:
            member = tarfile.TarInfo(f"set/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    elif form == "gz":
        path = written(gzip.compress(content), f"{name}.gz")
    elif form != "file":
        path = path.parent if form == "folder" else path.parent.parent
    ratings = read_ratings(path)
    assert triples(ratings) == EXPECTED
    assert all(type(value) is int for value in (*ratings.users, *ratings.items))


def test_all_netflix_files_of_a_folder_are_read(tmp_path, written):
    written("7:\n1,5,2005-09-06\n2,3,2005-09-06", "training_set/mv_0000007.txt")
    written("9:\r\n1,4,2005-09-06\r\n", "training_set/mv_0000009.txt")
    written("10:\n", "training_set/mv_0000010.txt")
    written("7,2003,Title", "movie_titles.txt")
    ratings = read_ratings(tmp_path)
    assert triples(ratings) == {(1, 7, 5.0), (2, 7, 3.0), (1, 9, 4.0)}
    # Without a movie line of its own, a file's ratings must not go to the movie before.
    written("3,1,2005-09-06\n", "training_set/mv_0000009.txt")
    with pytest.raises(RatingsError, match=r"mv_0000009\.txt\): 1 line .* line 1: no line such"):
        read_ratings(tmp_path)


def test_parquet_keeps_the_kinds_of_ids(tmp_path):
    path = tmp_path / "x.parquet"
    table = pa.table(
        {
            "score": pa.array([5, 3, 4], pa.decimal128(3, 1)),
            "user_id": pa.array(["1", "02", "1"]).dictionary_encode(),
            "when": [1, 2, 3],
            "ASIN": pa.array([2**63 + 1, 20, 20], pa.uint64()),
        }
    )
    parquet.write_table(table, path)
    ratings = read_ratings(path)
    assert triples(ratings) == {("1", 2**63 + 1, 5.0), ("02", 20, 3.0), ("1", 20, 4.0)}
    assert read_ratings(path, item="when").items.ids == (1, 2, 3)


def test_parquet_of_pandas_and_polars(tmp_path):
    frame = {"user": ["a", "b"], "item": [1.0, 2.0], "rating": ["low", "high"]}
    kind = pd.CategoricalDtype(["low", "high"], ordered=True)
    pd.DataFrame(frame).astype({"rating": kind}).to_parquet(tmp_path / "pandas.parquet")
    pl.DataFrame(frame).write_parquet(tmp_path / "polars.parquet")
    by_pandas = read_ratings(tmp_path / "pandas.parquet")
    assert by_pandas.scale == RatingScale(["low", "high"])
    by_polars = read_ratings(tmp_path / "polars.parquet", scale=["low", "high"])
    for ratings in (by_pandas, by_polars):
        assert triples(ratings) == {("a", 1, 1.0), ("b", 2, 2.0)}


@pytest.mark.parametrize(
    ("column", "values", "words"),
    [
        ("user", [1.5, 2.0], r"user column .* not integers: row 0 \(id 1\.5\)"),
        ("user", [1, None], r"the user is missing in row 1; rows count from 0"),
        ("item", ["", "b"], r"the item column is empty in row 0"),
        ("item", [[1], [2]], "the item column holds list"),
        ("rating", [[1], [2]], "the rating column holds list"),
        ("rating", [1.0, float("inf")], r"must be finite numbers: row 1 \(user 2"),
        ("rating", ["good", "bad"], r'scale=\["poor", "fair", "good"\]'),
    ],
)
def test_parquet_that_cannot_be_used_is_refused(tmp_path, column, values, words):
    path = tmp_path / "x.parquet"
    parquet.write_table(
        pa.table({"user": [1, 2], "item": [1, 2], "rating": [3, 4], column: values}), path
    )
    with pytest.raises(RatingsError, match=words):
        read_ratings(path)


# -- columns ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("header", "told"),
    [
        ("user,item,rating", {}),
        ("User-ID,ISBN,Book-Rating", {}),
        ("\ufeffuser_id, movie_id ,Stars", {}),
        ("who,what,how", {"user": "who", "item": "what", "rating": "how"}),
        ("who,what,how", {"user": 0, "item": 1, "rating": 2}),
        ("who,item,stars", {"user": "who"}),
        ("user,movie,rating", {"item": "movie"}),
        ("a,b,c", {"user": 0, "item": 1, "rating": 2, "header": True}),
    ],
)
def test_columns_are_found_by_name(written, header, told):
    path = written(PLAIN.replace("user,item,rating", header))
    assert triples(read_ratings(path, **told)) == EXPECTED


def test_columns_in_another_order_and_without_names(written):
    assert triples(read_ratings(written("5,10,1\n3,20,2\n4,20,1\n"), user=2, item=1, rating=0)) == (
        EXPECTED
    )
    path = written("u,i,good\nv,i,poor\n")
    assert triples(read_ratings(path, scale=["poor", "good"])) == {("u", "i", 2.0), ("v", "i", 1.0)}


@pytest.mark.parametrize(
    ("text", "told", "words"),
    [
        ("who,what,how\n1,2,3\n", {}, r"cannot tell .* 'who', 'what', 'how': .* say user="),
        ("user,what,rating\n1,2,3\n", {"user": "user"}, "cannot tell which column is the item"),
        ("user,item,movie,rating\n1,2,3,4\n", {}, "'item', 'movie' could all be the item"),
        (PLAIN, {"rating": "stars"}, "no column 'stars'; the columns are 'user', 'item', 'rating'"),
        (PLAIN, {"rating": 3}, "rating=3 is not a column: there are 3"),
        (PLAIN, {"rating": -1}, "rating=-1 is not a column"),
        ("1,2,3\n", {"user": 1}, r"one column cannot be two things \(user=1, item=1"),
        ("1,2,3\n", {"user": "a", "header": False}, "leave header=False out"),
        ("user,item\n1,2\n", {}, "has 2 fields, 'user', 'item'; need user, item, rating"),
        ("a,b,c\n1,2,3\n", {"user": "a", "item": "a", "rating": "c"}, "cannot be two things"),
        ("a,a,c\n1,2,3\n", {"user": "a", "item": "c"}, "'a', 'a' could all be the user"),
        ("hello\n", {}, "what separates the columns of the first line, 'hello'"),
        ("", {}, "is empty"),
        ("\n \n\n", {}, "is empty"),
        ("user,item,rating\n", {}, "has no data"),
        (PLAIN, {"layout": "parquet"}, "not a whole parquet file"),
        (PLAIN, {"layout": "netflix"}, "no line such as '1:'"),
        (PLAIN, {"member": "x"}, "leave member='x' out"),
        (PLAIN, {"encoding": "klingon"}, "encoding='klingon' is not known"),
        (PLAIN, {"duplicates": "first"}, "duplicates must be"),
        (PLAIN, {"scale": "stars"}, "scale must be levels"),
        ("1,2,3\n1,2,4\n", {"duplicates": "error"}, r"row 1 \(user 1, item 2\).*row 0 is line 1$"),
        (f"{PLAIN}1,2,3\n1,2,4\n", {"duplicates": "error"}, "; row 0 is line 2$"),
        (f"\n\n{PLAIN}1,2,3\n1,2,4\n", {"duplicates": "error"}, "; row 0 is line 4$"),
    ],
)
def test_what_cannot_be_told_is_asked_for(written, text, told, words):
    with pytest.raises(RatingsError, match=words):
        read_ratings(written(text), **told)


@pytest.mark.parametrize("told", [{"duplicates": "first"}, {"scale": "stars"}], ids=str)
def test_rows_are_explained_only_where_one_is_named(written, told):
    with pytest.raises(RatingsError) as caught:
        read_ratings(written(PLAIN), **told)
    assert "; row" not in str(caught.value)


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({"encoding": None}, "encoding=None is not the name of one"),
        ({"user": 1.5}, "user=1.5 is not a column"),
        ({"item": ["a"]}, r"item=\['a'\] is not a column"),
    ],
)
def test_settings_of_another_kind_are_refused(written, told, words):
    with pytest.raises(SettingsError, match=words):
        read_ratings(written(PLAIN), **told)


def test_unknown_layouts_are_refused(written):
    with pytest.raises(SettingsError, match="layout='xml' is not known: use one of csv, tsv"):
        read_ratings(written(PLAIN), layout="xml")


def test_files_that_are_not_there(tmp_path):
    with pytest.raises(RatingsError, match=r"cannot read .*nowhere: No such file"):
        read_ratings(tmp_path / "nowhere")
    with pytest.raises(RatingsError, match="embedded null byte"):
        read_ratings("a\0b")
    with pytest.raises(RatingsError, match=r"found no rating file .* among nothing"):
        read_ratings(tmp_path)


def test_several_candidates_are_told_apart_by_member(written, tmp_path):
    written("1,2,3\n", "a.csv")
    written("4,5,6\n", "b.csv")
    with pytest.raises(RatingsError, match=r"several files .* a\.csv, b\.csv; say which with memb"):
        read_ratings(tmp_path)
    assert triples(read_ratings(tmp_path, member="b.csv")) == {(4, 5, 6.0)}
    with pytest.raises(RatingsError, match=r"no file 'c\.csv'; it has a\.csv, b\.csv"):
        read_ratings(tmp_path, member="c.csv")


def test_pipes_are_read(tmp_path):
    import os
    import threading

    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_text, args=(PLAIN,))
    writer.start()
    assert triples(read_ratings(path)) == EXPECTED
    writer.join()


# -- ids -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("texts", "ids"),
    [
        (["1", "-5", "0"], (1, -5, 0)),
        (["007", "7"], ("007", "7")),
        (["9223372036854775807", "-9223372036854775808"], (2**63 - 1, -(2**63))),
        (["9007199254740993", "1"], (2**53 + 1, 1)),
        (["18446744073709551616", "1"], (2**64, 1)),
        (["1" + "0" * 100, "1"], ("1" + "0" * 100, "1")),
        (["1.0", "2"], ("1.0", "2")),
        (["+1", "2"], ("+1", "2")),
        (["-0", "2"], ("-0", "2")),
        (["0x1F", "2"], ("0x1F", "2")),
        (["1_000", "2"], ("1_000", "2")),
        (["1e3", "2"], ("1e3", "2")),
        (["١", "2"], ("١", "2")),  # a digit of another script
        (["NA", "null"], ("NA", "null")),
        (["nan", "inf"], ("nan", "inf")),
        (["a\0b", "a"], ("a\0b", "a")),
        (["true", "false"], ("true", "false")),
        (["2020-01-01", "2020-01-02"], ("2020-01-01", "2020-01-02")),
    ],
)
def test_ids_are_integers_or_the_text_itself(written, texts, ids):
    lines = "".join(f"{text},{text},{stars}\n" for stars, text in enumerate(texts))
    ratings = read_ratings(written("user,item,rating\n" + lines))
    assert ratings.users.ids == ratings.items.ids == ids
    assert list(map(type, ratings.users)) == list(map(type, ids))


def test_quotes_spaces_and_line_ends(written):
    ratings = read_ratings(
        written(
            '"user", item ,rating,note\r\n'
            '"a, b","x\r\ny",3,\r\n'
            ' c,"say ""hi""", 4.5 ,"1\n2"\r\n'
            "\r\n"
            '" d",5" disc,1e0,x'
        )
    )
    assert triples(ratings) == {("a, b", "x\r\ny", 3), ("c", 'say "hi"', 4.5), (" d", '5" disc', 1)}


def test_encodings(written):
    text = "user,item,rating\nRené,1,3\n李,1,4\n"
    assert read_ratings(written(text)).users.ids == ("René", "李")
    for name in ("utf-16", "utf-32", "utf-16-le"):
        path = written(text.encode(name))
        with pytest.raises(RatingsError, match=f"UTF-.* or give encoding='{name}'"):
            read_ratings(path)
        assert read_ratings(path, encoding=name).users.ids == ("René", "李")
    path = written("user,item,rating,title\n1,1,3,é\nRené,1,3,x\n".encode("latin-1"))
    with pytest.raises(RatingsError, match=r"line 3: the user has byte 0xe9.*'Ren\\xe9,1,3,x'; if"):
        read_ratings(path)
    assert read_ratings(path, encoding="latin-1").users.ids == ("1", "René")
    with pytest.raises(RatingsError, match=r"is not ascii text: .* position 29"):
        read_ratings(path, encoding="ascii")


# -- what is wrong, and where ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("1,2", "2 fields instead of 3, in '1,2'"),
        ("1,2,3,4", "4 fields instead of 3, in '1,2,3,4'"),
        (",2,3", "the user is empty, in ',2,3'"),
        ("1,,3", "the item is empty"),
        ("1,2,", "the rating '' is empty"),
        ("1,2,good", "the rating 'good' is not a number"),
        ("1,2,nan", "the rating 'nan' is not a number"),
        ("1,2,1_0", "the rating '1_0' is not a number"),
        ("1,2,1e400", "the rating '1e400' is beyond"),
        ('1,"2"x,3', "text follows a closing quote"),
        ('1,"2,3', "a quote is opened and never closed"),
        (f'1,"{"x" * 200_000}",3', "a field is longer than 131,072 characters"),
    ],
)
def test_malformed_lines_are_reported_by_number(written, line, words):
    path = written(f'user,item,rating\n\n1,"a\nb",3\n{line}\n')
    with pytest.raises(
        RatingsError, match=r"ratings\.csv: 1 line cannot be used: line 5: "
    ) as said:
        read_ratings(path)
    assert words in str(said.value)
    assert len(str(said.value)) < 600


def test_of_many_malformed_lines_five_are_shown_and_all_counted(written):
    lines = [f"{n},{n}" if n % 1000 == 7 else f"{n},{n},{n % 5}" for n in range(20_000)]
    path = written("user,item,rating\n" + "\n".join(lines))
    with pytest.raises(RatingsError, match=r": 20 lines .*: line 9: 2 fields") as said:
        read_ratings(path)
    assert [f"line {1000 * k + 9}:" in str(said.value) for k in range(6)] == [True] * 5 + [False]


@pytest.mark.parametrize("name", LAYOUTS)
def test_malformed_lines_of_every_layout(written, name):
    lines = LAYOUTS[name].splitlines()
    path = written("\n".join([*lines[:-1], "?"]), name)
    with pytest.raises(RatingsError, match=f"1 line cannot be used: line {len(lines)}: .*'\\?'"):
        read_ratings(path)


def test_a_wrong_rating_column_is_checked_many_fields_at_once(written, monkeypatch):
    n = 5 * checking._BATCH // 2
    checks, check = [], checking.bad_ratings
    monkeypatch.setattr(
        checking,
        "bad_ratings",
        lambda texts, scale: checks.append(len(texts)) or check(texts, scale),
    )
    lines = "".join(f"{row},{row},{row}\n" for row in range(n))
    wrong = rf"{n - 2:,} lines cannot be used: line 1: the rating '0'"
    with pytest.raises(RatingsError, match=wrong):
        read_ratings(written(lines), scale=[1, 2])
    assert len(checks) <= 1 + 3  # the whole column, then batches that say which line is wrong
    assert sum(checks) <= 2 * n


def test_labels_need_a_scale(written):
    path = written("user,item,rating\n1,2,good\n1,3,poor\n")
    with pytest.raises(RatingsError, match=r'"poor", "fair", "good"\]; if another column'):
        read_ratings(path)
    scale = ["poor", "fair", "good"]
    assert triples(read_ratings(path, scale=scale)) == {(1, 2, 3.0), (1, 3, 1.0)}
    with pytest.raises(RatingsError, match="line 3: the rating 'poor' is not on the scale"):
        read_ratings(path, scale=["fair", "good"])


def test_scales_are_those_of_ratings(written):
    path = written(PLAIN)
    assert read_ratings(path, scale=range(1, 11)).scale == RatingScale(range(1, 11))
    assert read_ratings(path, scale=(level for level in range(7))).scale == RatingScale(range(7))
    assert read_ratings(path, scale="continuous").is_continuous
    assert read_ratings(path, scale=RatingScale.bins([0, 4, 5])).levels.tolist() == [1, 1, 0]
    with pytest.raises(RatingsError, match="line 2: the rating '5' is not on the scale"):
        read_ratings(path, scale=[1, 2, 3, 4])


# -- the fast way and the plain way ----------------------------------------------------------------

SIGNS = st.text(st.sampled_from('ab1, ;|\t"\n\r:é\x1f\0'), max_size=40)


def test_a_byte_order_mark_in_the_middle_is_text(written):
    assert read_ratings(written("user,item,rating\n\ufeff7,1,2\n")).users.ids == ("\ufeff7",)


@given(text=SIGNS, separator=st.sampled_from([",", "\t", ";", "|", "::", " "]))
@example('"a",b\n"c\n",d', ",")
@example('a,"b"\r\n"c",d', ",")
@example('"""a""",""\n"b""\n""","c"', ",")
@example('""a,b', ",")
@example("a b \r\nc d \r\n", " ")
@example("a:::b\n::c", "::")
def test_what_arrow_reads_is_what_the_records_say(text, separator):
    cut = list(records(text.encode(), separator))
    width = 2
    found = arrow_columns(text.encode(), separator, False, width, (0, 1))
    if found is None:
        return
    assert all(not record.problem and len(record.fields) == width for record in cut)
    read = [[texts.distinct[code] for code in texts.codes] for texts in found]
    assert read == [[record.fields[place] for record in cut] for place in (0, 1)]


@given(text=SIGNS.map(lambda text: text.replace("a", "1:").replace("é", "\n5,3,x\n")))
@example("1:\n5,3,x\n2:\n2:\n6,3,x")
@example("1:\n5,3,x\n6:3,3,x")
def test_what_arrow_reads_of_netflix_is_what_the_records_say(text):
    found = netflix_columns(text.encode())
    if found is None:
        return
    cut = list(netflix_records(text.encode()))
    assert not any(record.problem for record in cut)
    read = [[texts.distinct[code] for code in texts.codes] for texts in found]
    assert read == [[record.fields[place] for record in cut] for place in range(4)]


@pytest.mark.parametrize(
    ("separator", "quote"),
    [(",", ""), (",", '"'), ("\t", ""), ("\t", '"'), (";", '"'), ("::", ""), (" ", "")],
)
def test_plain_files_take_the_fast_way(separator, quote):
    rows = [("u1", "i1", "3"), ("u2", "i1", "4.5")]
    text = "\n".join(separator.join(f"{quote}{cell}{quote}" for cell in row) for row in rows)
    found = arrow_columns(text.encode(), separator, False, 3, (0, 1, 2))
    assert [list(texts.distinct) for texts in found] == [["u1", "u2"], ["i1"], ["3", "4.5"]]


def test_texts_of_arrow_are_those_of_a_list():
    plain = [f"é{number}" for number in range(10_001)]
    texts = ArrowTexts(pa.array(plain))
    assert list(texts) == plain
    assert len(texts) == len(plain)
    assert (texts[0], texts[4_096], texts[-1]) == (plain[0], plain[4_096], plain[-1])
    assert texts[5_000:5_003] == plain[5_000:5_003]
    assert "é9999" in texts
    assert "" not in texts


# -- archives that mean harm -----------------------------------------------------------------------


def test_archives_are_never_unpacked_to_the_disk(tmp_path):
    path = tmp_path / "in" / "evil.zip"
    path.parent.mkdir()
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("../../ratings.csv", PLAIN)
    assert triples(read_ratings(path)) == EXPECTED
    assert {file.name for file in tmp_path.rglob("*")} == {"in", "evil.zip"}


def test_gzip_of_several_streams_and_cut_short(written):
    packed = gzip.compress(b"1,2,3\n") + gzip.compress(b"1,4,5\n") + bytes(10)
    assert len(read_ratings(written(packed, "x.csv.gz"))) == 2
    with pytest.raises(RatingsError, match="damaged: it ends in the middle"):
        read_ratings(written(packed[:-20], "x.csv.gz"))


def test_many_gzip_streams_take_work_in_proportion(written, monkeypatch):
    """No stream is handed all that follows it."""
    given = []

    class Stream:
        def __init__(self, **how):
            self._stream = zlib.decompressobj(**how)

        def decompress(self, packed, most):
            given.append(len(packed))
            return self._stream.decompress(packed, most)

        def __getattr__(self, name):
            return getattr(self._stream, name)

    monkeypatch.setattr(unpacking, "zlib", SimpleNamespace(decompressobj=Stream, error=zlib.error))
    streams = 4_000
    packed = gzip.compress(b"") * streams + bytes(100_000) + gzip.compress(PLAIN.encode())
    found = triples(read_ratings(written(packed, "x.csv.gz")))
    assert max(given) <= unpacking._SLICE < len(packed) / 10
    assert len(given) <= 2 * (streams + 1)
    assert found == triples(read_ratings(written(PLAIN)))


def test_gzip_larger_than_a_slice_and_a_chunk():
    lines = b"".join(b"%d,%d,%d\n" % (row, row * 7919 % 9973, row % 5) for row in range(150_000))
    content = gzip.compress(lines) + gzip.compress(lines[:100])
    assert len(lines) > unpacking.UNPACKED_AT_ONCE
    assert unpacking.unpacked_content(content, "x", Budget()) == lines + lines[:100]


def test_members_without_a_name_are_refused(tmp_path, written):
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr("r", PLAIN)
    nameless = (tmp_path / "x.zip").read_bytes().replace(b"r" + b"PK\x05", b"\0PK\x05")
    with pytest.raises(RatingsError, match="damaged or of an unknown kind"):
        read_ratings(written(nameless, "x.zip"))


def test_encrypted_archives_are_refused(written, tmp_path):
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr("ratings.csv", PLAIN)
    content = bytearray((tmp_path / "x.zip").read_bytes())
    content[6] |= 1
    content[content.find(b"PK\x01\x02") + 8] |= 1
    with pytest.raises(RatingsError, match="encrypted, password required"):
        read_ratings(written(bytes(content), "x.zip"))


# -- pairs, titles ---------------------------------------------------------------------------------


def test_pairs_need_no_ratings(written):
    pairs = read_pairs(written("note,item,user\nx,b,1\ny,c,2\n"))
    assert (pairs.users.tolist(), pairs.items.tolist()) == ([1, 2], ["b", "c"])
    pairs = read_pairs(written("1\t10\n2\t20\n", "pairs.tsv"))
    assert (pairs.users.tolist(), pairs.items.tolist()) == ([1, 2], [10, 20])
    assert read_pairs(written(PLAIN)).items.tolist() == [10, 20, 20]
    with pytest.raises(RatingsError, match="line 2: the item is empty"):
        read_pairs(written("user,item\n1,\n"))
    with pytest.raises(RatingsError, match="say user=, item=; if it is data, header=False"):
        read_pairs(written("ann,film\n"))
    assert read_pairs(written("ann,film\n"), header=False).users.tolist() == ["ann"]


@pytest.mark.parametrize(
    ("given_ids", "known", "matched"),
    [
        (["12", "13"], [12], [12, "13"]),
        ([12, 13], ["12"], ["12", 13]),
        (["12", 12], [12, "12"], ["12", 12]),
        (["007", "7.0", " 7"], [7, "x"], ["007", 7, " 7"]),
        (["7.5"], [7.5], [7.5]),
        (np.array([1, 2]), ["1", 2], ["1", 2]),
        (["9" * 5000], [1], ["9" * 5000]),
        ([None, (1, 2)], ["x"], [None, (1, 2)]),
    ],
)
def test_ids_are_matched_with_those_of_a_model(given_ids, known, matched):
    found = matched_ids(given_ids, IdMap(tuple(known)))
    assert found == matched
    assert all(
        type(ours) is type(theirs) for ours, theirs in zip(found, matched, strict=True) if ours != 7
    )


def test_titles_of_the_usual_sets(written, tmp_path):
    names = {
        "movies.csv": 'movieId,title,genres\n1,"Postman, The (1994)",Drama\n2,Été,Drama\n',
        "movies.dat": "1::Postman, The (1994)::Drama\n2::Été::Drama\n".encode("latin-1"),
        "u.item": "1|Postman, The (1994)|x||0\n2|Été|x||0\n".encode("latin-1"),
        "movie_titles.txt": "1,1994,Postman, The (1994)\n2,NULL,Été\n".encode("latin-1"),
    }
    for name, content in names.items():
        path = written(content, f"{name}-set/{name}")
        ratings = written(PLAIN, f"{name}-set/ratings.csv")
        for place in (path, path.parent, ratings):
            assert read_titles(place) == {1: "Postman, The (1994)", 2: "Été"}
    assert read_titles(written(PLAIN)) is None
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr("ml/movies.dat", "a::b::c\nno title\n")
    with pytest.raises(RatingsError, match="line 2: no title in 'no title'"):
        read_titles(tmp_path / "x.zip")


@pytest.mark.parametrize(
    ("name", "content", "wrong"),
    [
        ("movies.csv", 'movieId,title\n1,"A\nB"\n2,\n3\n', "line 5: no title in '3'"),
        ("movies.csv", '1,"A" x\n', "line 1: text follows a closing quote"),
        ("movies.csv", 'movieId,title\n1,"A\n', "line 2: a quote is opened and never closed"),
        ("movies.dat", "1::A::x\n\n2::B\n", "line 3: no title in '2::B'"),
        ("movie_titles.txt", '1,2003,"A, B\n,2004,C\n', "line 2: no title in ',2004,C'"),
    ],
)
def test_a_line_without_a_title_is_named(written, name, content, wrong):
    with pytest.raises(RatingsError, match=re.escape(wrong)):
        read_titles(written(content, name))


def test_titles_of_ones_own(written):
    expected = {"x": 'A, "B"', "y": "C"}
    assert read_title_table(written('\ufeffx,"A, ""B""",1\n\ny,C\n', "own.csv")) == expected
    assert read_title_table(written('x\t"A, ""B"""\ny\tC\n', "own.tsv")) == expected
    with pytest.raises(RatingsError, match=r"own.csv: line 2: no title in 'y'"):
        read_title_table(written("x,A\ny\n", "own.csv"))


def test_tables_of_items(written):
    path = written('item, genre\n1,"x, y"\n\n2,z\n', "items.csv")
    assert read_item_table(path) == (["item", "genre"], [["1", "x, y"], ["2", "z"]])
    with pytest.raises(RatingsError, match=r"line 3: 1 columns, and the header has 2"):
        read_item_table(written("item,genre\n1,x\n2\n", "items.csv"))
    with pytest.raises(RatingsError, match=r"line 2: a quote is opened and never closed"):
        read_item_table(written('item,genre\n"1,x\n', "items.csv"))
    with pytest.raises(RatingsError, match=r"is not a file: give a csv or tsv"):
        read_item_table(path.parent)


def test_titles_of_the_archives(data_file):
    counts = {"ml-100k.zip": 1682, "ml-1m.zip": 3883, "ml-latest-small-2016.zip": 9125}
    for name, count in counts.items():
        titles = read_titles(data_file(name))
        assert len(titles) == count
        assert titles[1] == "Toy Story (1995)"
        assert any("é" in title for title in titles.values())
    assert read_titles(data_file("filmtrust.zip")) is None


# -- writing ---------------------------------------------------------------------------------------

ids = st.lists(st.integers(), min_size=1, max_size=6, unique=True) | st.lists(
    st.text(st.characters(codec="utf-8"), min_size=1), min_size=1, max_size=6, unique=True
)


@given(users=ids, items=ids, data=st.data(), kind=st.sampled_from(["csv", "tsv.gz", "parquet"]))
def test_written_ratings_are_read_again(tmp_path_factory, users, items, data, kind):
    steps = st.integers(-(10**6), 10**6).map(lambda steps: steps / 1024)
    values = st.sampled_from([0.5, 1.0, 2.25, 1e5]) | steps
    n = data.draw(st.integers(1, 10))
    triple = [
        [data.draw(st.sampled_from(users)) for _ in range(n)],
        [data.draw(st.sampled_from(items)) for _ in range(n)],
        data.draw(st.lists(values, min_size=n, max_size=n)),
    ]
    ratings = Ratings(*triple)
    path = tmp_path_factory.mktemp("written") / f"x.{kind}"
    write_ratings(ratings, path)
    back = read_ratings(path)

    def as_text(value):
        return str(value) if isinstance(value, int) else value

    assert {(as_text(u), as_text(i), r) for u, i, r in triples(back)} == {
        (as_text(u), as_text(i), r) for u, i, r in triples(ratings)
    }
    if kind != "parquet" and all(isinstance(user, int) and abs(user) < 10**99 for user in users):
        assert all(type(user) is int for user in back.users)
    if kind == "parquet":
        fits = all(isinstance(user, int) and abs(user) < 2**63 for user in ratings.users)
        assert all(type(user) is (int if fits else str) for user in back.users)


def test_labels_are_written(tmp_path):
    scale = ["so, so", "good"]
    ratings = Ratings([1, 2], [1, 1], ["good", "so, so"], scale=scale)
    for name in ("x.csv", "x.parquet"):
        write_ratings(ratings, tmp_path / name)
        assert triples(read_ratings(tmp_path / name, scale=scale)) == triples(ratings)


def test_the_same_ratings_give_the_same_bytes(tmp_path):
    ratings = Ratings([1, 2], ["a", "b"], [1.5, 2])
    for name in ("x.csv.gz", "x.parquet", "x.tsv"):
        write_ratings(ratings, tmp_path / name)
        first = (tmp_path / name).read_bytes()
        with pytest.raises(RatingsError, match=r"there already.* overwrite=True"):
            write_ratings(ratings, tmp_path / name)
        write_ratings(ratings, tmp_path / name, overwrite=True)
        assert (tmp_path / name).read_bytes() == first
    assert first == b"user\titem\trating\n1\ta\t1.5\n2\tb\t2\n"


@pytest.mark.parametrize(
    ("users", "name", "words"),
    [
        ([1], "x.xlsx", r"must end in \.csv"),
        ([1], "x.parquet.gz", r"must end in \.csv"),
        ([(1, 2)], "x.csv", r"id \(1, 2\) is neither an integer nor text"),
        ([1.5], "x.csv", "neither"),
        ([""], "x.csv", "empty id"),
        (["\ud800"], "x.csv", "not valid Unicode"),
        ([1, "1"], "x.csv", "would become one"),
        ([1, "1"], "x.parquet", "would become one"),
        ([1], "no/such/x.csv", "cannot write .* No such file"),
    ],
)
def test_what_would_not_come_back_is_not_written(tmp_path, users, name, words):
    ratings = Ratings(users, list(range(len(users))), [1] * len(users))
    with pytest.raises(RatingsError, match=words):
        write_ratings(ratings, tmp_path / name)
    assert list(tmp_path.rglob("*")) == []


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "x.csv"
    path.write_text("old")

    def full(_descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(RatingsError, match="No space left"):
        write_ratings(Ratings([1], [1], [1]), path, overwrite=True)
    assert [file.name for file in tmp_path.iterdir()] == ["x.csv"]
    assert path.read_text() == "old"
