"""What is left out of files where the caller says so: bad lines, ratings that are none, commas."""

import csv
import warnings

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import feather, parquet

from ordbm import read_ratings
from ordbm.datasets import read_pairs
from ordbm.errors import LeftOutWarning, OrdbmError, RatingsError, SettingsError

GOOD = {(1, 10, 5.0), (2, 20, 3.0), (1, 20, 4.0)}
BAD = {  # by the number of its line
    3: ("1,2", "2 fields instead of 3"),
    5: (",2,3", "the user is empty"),
    6: ("1,2,good", "the rating 'good' is not a number"),
    8: ('1,"2"x,3', "text follows a closing quote"),
    9: ("1,Ren\udce9,", "the item has byte 0xe9, which is not UTF-8"),
    10: ("9,9,6", "the rating '6' is not on the scale (5 levels: 1, 2, 3, 4, 5)"),
}
LINES = {1: "user,item,rating", 2: "1,10,5", 4: "2,20,3", 7: "1,20,4"}


def triples(ratings):
    pairs = zip(ratings.user_codes, ratings.item_codes, ratings.values.tolist(), strict=True)
    return {(ratings.users[u], ratings.items[i], value) for u, i, value in pairs}


@pytest.fixture
def broken(tmp_path):
    lines = LINES | {number: line for number, (line, _) in BAD.items()}
    path = tmp_path / "ratings.csv"
    text = "".join(f"{lines[number]}\n" for number in sorted(lines))
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    return path


# -- bad lines -------------------------------------------------------------------------------------


def test_an_error_stays_the_default_and_says_how_to_go_on(broken):
    with pytest.raises(RatingsError, match="6 lines cannot be used: line 3: 2 fields"):
        read_ratings(broken, scale=range(1, 6))
    with pytest.raises(RatingsError, match=r"line 6: .*; correct .* bad_lines='skip'$"):
        read_ratings(broken, encoding="latin-1")


def test_bad_lines_are_skipped_counted_told_and_written(broken, tmp_path):
    to = tmp_path / "bad.csv"
    with pytest.warns(LeftOutWarning, match=r"ratings.csv: 6 lines left out: line 3: .*bad.csv"):
        ratings = read_ratings(broken, scale=range(1, 6), bad_lines="skip", bad_lines_to=to)
    assert triples(ratings) == GOOD
    assert ratings.n_bad_lines == 6
    assert "6 bad lines left out" in repr(ratings)
    with to.open(encoding="utf-8", errors="surrogateescape", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(int(row["line"]), row["text"], row["reason"]) for row in rows] == [
        (number, *BAD[number]) for number in sorted(BAD)
    ]
    assert {row["file"] for row in rows} == {str(broken)}


def test_without_a_file_the_first_are_shown_and_the_option_named(broken):
    with pytest.warns(LeftOutWarning) as said:
        read_ratings(broken, scale=range(1, 6), bad_lines="skip")
    assert said[0].filename == __file__
    text = str(said[0].message)
    assert [f"line {number}:" in text for number in sorted(BAD)] == [True] * 5 + [False]
    assert "bad_lines_to=" in text


def test_a_whole_file_gives_no_warning_and_an_empty_list(tmp_path):
    path, to = tmp_path / "ratings.csv", tmp_path / "bad.csv"
    path.write_text("1,10,5\n2,20,3\n")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_ratings(path, bad_lines="skip", bad_lines_to=to).n_bad_lines == 0
    assert to.read_text() == "file,line,reason,text\n"


def test_where_no_line_is_good_it_is_an_error(tmp_path):
    path = tmp_path / "ratings.csv"
    path.write_text("user,item,rating\n1,2,good\n1,3,bad\n")
    with pytest.raises(RatingsError, match=r"2 lines cannot be used: line 2: .*labels"):
        read_ratings(path, bad_lines="skip")


def test_bad_lines_of_several_files_have_their_file(tmp_path):
    folder = tmp_path / "training_set"
    folder.mkdir()
    (folder / "mv_0000007.txt").write_text("7:\n1,5,2005-09-06\n?\n")
    (folder / "mv_0000009.txt").write_text("?\n")
    to = tmp_path / "bad.csv"
    with pytest.warns(LeftOutWarning, match="2 lines left out"):
        assert len(read_ratings(folder, bad_lines="skip", bad_lines_to=to)) == 1
    rows = list(csv.reader(to.read_text().splitlines()))[1:]
    assert [(row[0][-15:], row[1]) for row in rows] == [
        ("mv_0000007.txt)", "3"),
        ("mv_0000009.txt)", "1"),
    ]


def test_pairs_may_have_bad_lines_too(tmp_path):
    path = tmp_path / "pairs.csv"
    path.write_text("user,item\n1,2\n1\n3,4\n")
    with pytest.warns(LeftOutWarning, match="1 line left out: line 3"):
        pairs = read_pairs(path, bad_lines="skip")
    assert pairs.users.tolist() == [1, 3]


def test_bad_lines_never_go_over_another_file(broken, tmp_path):
    before = broken.read_bytes()
    for to in (broken, tmp_path, tmp_path / "none" / "bad.csv"):
        with pytest.raises(SettingsError, match=r"cannot write the bad lines to .*another name"):
            read_ratings(broken, scale=range(1, 6), bad_lines="skip", bad_lines_to=to)
    assert broken.read_bytes() == before
    with pytest.raises(SettingsError, match="no effect without bad_lines='skip'"):
        read_ratings(broken, bad_lines_to=tmp_path / "bad.csv")
    with pytest.raises(SettingsError, match="bad_lines='warn': use 'error' or 'skip'"):
        read_ratings(broken, bad_lines="warn")


# -- values that mean "not rated" ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "missing"),
    [("0", 0), ("0.0", 0), (" 0 ", [0, -1]), ("-1", [0, -1]), ("NA", "NA"), ("", float("nan"))],
)
@pytest.mark.parametrize("slow", [False, True])
def test_ratings_that_are_none_are_left_out_and_counted(tmp_path, field, missing, slow):
    path = tmp_path / "ratings.csv"
    odd = '1"' if slow else "1"  # with such a quote, records are looked at one by one
    path.write_text(f"user,item,rating\n1,10,5\n7,70,{field}\n2,20,3\n{odd},20,4\n8,80,{field}\n")
    ratings = read_ratings(path, missing=missing)
    assert ratings.n_missing == 2
    assert len(ratings) == 3
    assert not {7, 8, "7", "8"} & set(ratings.users)
    assert ratings.scale.values.tolist() == [3, 4, 5]


def test_ratings_that_are_none_of_typed_files(tmp_path):
    table = pa.table({"user": [1, 2, 3], "item": [1, 1, 1], "rating": [5.0, None, 0.0]})
    for write, name in ((parquet.write_table, "r.parquet"), (feather.write_feather, "r.feather")):
        path = tmp_path / name
        write(table, path)
        with pytest.raises(RatingsError, match=r"rating is missing in row 1; .*say missing=nan"):
            read_ratings(path)
        found = read_ratings(path, missing=[0, float("nan")])
        assert (found.users.ids, found.n_missing) == ((1,), 2)


def test_a_file_of_ratings_that_are_none_is_refused(tmp_path):
    path = tmp_path / "ratings.csv"
    path.write_text("user,item,rating\n1,10,0\n2,20,0\n")
    with pytest.raises(RatingsError, match="all 2 ratings mean 'not rated'"):
        read_ratings(path, missing=0)
    path.write_text("ann,film,?\nbob,film,4\n")  # a first line without a number may be data too
    assert read_ratings(path, missing="?").n_missing == 1


def test_rows_of_errors_are_not_taken_for_lines(tmp_path):
    path = tmp_path / "ratings.csv"
    path.write_text("user,item,rating\n1,10,0\n2,20,3\n2,20,4\n")
    with pytest.raises(RatingsError, match=r"row 1 .*rows count from 0, without those left out"):
        read_ratings(path, missing=0, duplicates="error")


# -- decimal commas --------------------------------------------------------------------------------


@pytest.mark.parametrize("slow", [False, True])
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("r.csv", "user;item;rating\n1;10;5\n2;20;3,5\n1;20;4\n"),
        ("r.csv", "1;10;5,0\n2;20;3,5\n1;20;4\n"),
        ("r.csv", 'user,item,rating\n1,10,5\n2,20,"3,5"\n1,20,"4,0"\n'),
        ("r.tsv", "1\t10\t5\n2\t20\t3,5\n1\t20\t4,0\n"),
        ("r.csv", "1\t10\t5,0\n2\t20\t3,5\n1\t20\t4,0\n"),
        ("r.txt", "1|10|5,0\n2|20|3,5\n1|20|4\n"),
        ("r.dat", "1::10::5,0\n2::20::3,5\n1::20::4\n"),
    ],
)
def test_decimal_commas_are_found_where_they_are_clear(tmp_path, name, text, slow):
    path = tmp_path / name
    path.write_text(text + "?\n" * slow)  # a bad line has the file read line by line
    told = {"bad_lines": "skip"} if slow else {}
    with pytest.warns(LeftOutWarning) if slow else warnings.catch_warnings():
        assert triples(read_ratings(path, **told)) == {(1, 10, 5.0), (2, 20, 3.5), (1, 20, 4.0)}


@pytest.mark.parametrize("rating", ["1,000", "1.5,3", "1,5,3", ",5"])
def test_commas_that_may_mean_something_else_are_refused(tmp_path, rating):
    path = tmp_path / "r.csv"
    path.write_text(f"user;item;rating\n1;10;5\n2;20;{rating}\n")
    with pytest.raises(RatingsError, match=r"is not a number.*decimal=','"):
        read_ratings(path)
    path.write_text("user;item;rating\n1;10;5.5\n2;20;3,5\n")  # both signs: nobody can tell
    with pytest.raises(RatingsError, match="'3,5' is not a number"):
        read_ratings(path)


def test_what_is_said_of_decimals_holds(tmp_path):
    path = tmp_path / "r.csv"
    path.write_text("user;item;rating\n1;10;5\n2;20;1,000\n")
    assert read_ratings(path, decimal=",").values.tolist() == [5, 1]
    path.write_text("user;item;rating\n1;10;5\n2;20;3,5\n")
    with pytest.raises(RatingsError, match="'3,5' is not a number"):
        read_ratings(path, decimal=".")
    with pytest.raises(SettingsError, match="decimal=';'"):
        read_ratings(path, decimal=";")


# -- ids -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("texts", "ids"),
    [
        (["1.0", "-2.0", "0.0"], (1, -2, 0)),
        (["9007199254740993.0"], (2**53 + 1,)),
        (["1.0", "2"], ("1.0", "2")),
        (["1.0", "2.5"], ("1.0", "2.5")),
        (["1.00"], ("1.00",)),
        (["01.0"], ("01.0",)),
        (["-0.0"], ("-0.0",)),
    ],
)
def test_a_column_of_whole_floats_has_integer_ids(tmp_path, texts, ids):
    path = tmp_path / "ratings.csv"
    path.write_text("user,item,rating\n" + "".join(f"{text},{text},1\n" for text in texts))
    ratings = read_ratings(path)
    assert ratings.users.ids == ratings.items.ids == ids
    assert [type(user) for user in ratings.users] == [type(one) for one in ids]


def test_odd_settings_are_refused_by_name(tmp_path):
    path = tmp_path / "ratings.csv"
    path.write_text("1,10,5\n")
    for told in ({"missing": {}}, {"missing": object()}, {"bad_lines": 1}, {"decimal": 1}):
        if told == {"missing": {}}:
            assert len(read_ratings(path, **told)) == 1
            continue
        with pytest.raises(OrdbmError, match=next(iter(told))):
            read_ratings(path, **told)
    assert np.isclose(read_ratings(path).values, 5)
