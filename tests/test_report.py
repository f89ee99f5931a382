"""The report: one page that holds everything, escaped, and appears whole or not at all."""

import datetime as dt
import re
from collections import Counter
from html.parser import HTMLParser

import numpy as np
import pytest

from ordbm import OrdinalBM, Ratings, hold_out
from ordbm.errors import OrdbmError, RatingsError
from ordbm.evaluation import CrossValidation, Evaluation, cross_validate, train_and_test
from ordbm.metrics.calibration import Reliability
from ordbm.report import write_report
from ordbm.training.loop import EpochRecord

VOID = {"meta", "br"}


class Page(HTMLParser):
    """A page read strictly: every tag closed in order; its tables, ids, tags and text."""

    def __init__(self, path):
        super().__init__()
        self.open, self.tags, self.ids, self.links, self.tables = [], Counter(), [], [], []
        self.text = ""
        self.feed(path.read_text(encoding="utf-8"))
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag, attributes):
        self.handle_startendtag(tag, attributes)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags[tag] += 1
        for name, value in attributes:
            if name == "id":
                self.ids.append(value)
            if name in {"src", "href", "xlink:href", "action"}:
                self.links.append(value)
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in {"td", "th"}:
            classes = dict(attributes).get("class", "")
            self.tables[-1][-1].append(["", "best" in classes])

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data
        if self.open and {"td", "th"} & set(self.open):
            self.tables[-1][-1][-1][0] += data + ("" if "small" in self.open else " ")

    def cells(self, table):
        return [[text.strip() for text, _ in row] for row in self.tables[table]]


def evaluation(model="machine", shift=0.0, **changes):
    """Scores of four users who have 1, 2, 3 and 4 test ratings."""
    weight = np.array([1.0, 2.0, 3.0, 4.0])
    rmse = np.array([1.0, 0.5, 0.7, 0.9]) + shift
    fields = {
        "model": model,
        "scores": {
            "rmse": float(np.sqrt(weight @ rmse**2 / 10)),
            "log_loss": 1.25 + shift,
            "calibration_error": 0.02,
            "ndcg@10": 0.31 - shift,
        },
        "intervals": {"rmse": (0.7, 0.9), "ndcg@10": (0.2, 0.4)},
        "per_user": {"rmse": rmse, "log_loss": np.full(4, 1.25 + shift)},
        "users": ["a", "b", "c", "d"],
        "reliability": [
            Reliability(
                4.0, "4", np.array([0.15, 0.75]), np.array([0.1, 0.8]), np.array([100, 300])
            )
        ],
        "n_ratings": 10,
        "n_users": 4,
        "seconds": {"predict": 0.5},
        "unknown": {"users": 0, "items": 3},
        "history": [EpochRecord(1, 2, -1.5, 0.1), EpochRecord(2, 2, -1.4, 0.1)],
        "weights": {"rmse": weight, "log_loss": weight},
    }
    return Evaluation(**(fields | changes))


def written(found, tmp_path, **details):
    return Page(write_report(found, tmp_path / "report.html", **details))


def test_scores_with_intervals_and_the_best_of_each_marked(tmp_path):
    page = written([evaluation("first"), evaluation("second", shift=0.1)], tmp_path)
    scores = page.tables[0]
    assert [cell[0].strip() for cell in scores[0]] == ["", "first", "second"]
    rows = {row[0][0].strip(): row[1:] for row in scores[1:]}
    assert rows["RMSE ↓"][0][0].split(" ", 1)[0] == "0.7880"
    assert "(0.7000 to 0.9000)" in rows["RMSE ↓"][0][0]
    assert [cell[1] for cell in rows["RMSE ↓"]] == [True, False]
    assert [cell[1] for cell in rows["log-loss ↓"]] == [True, False]
    assert [cell[1] for cell in rows["nDCG at 10 ↑"]] == [True, False]
    assert [cell[1] for cell in rows["calibration error ↓"]] == [True, True]
    assert rows["test ratings of unknown items"][0][0].strip() == "3"


def test_a_single_model_is_not_called_the_best(tmp_path):
    page = written(evaluation(), tmp_path)
    assert not any(best for row in page.tables[0] for _, best in row)
    assert "best of each" not in page.text


def test_calibration_and_errors_by_number_of_ratings(tmp_path):
    page = written(evaluation(), tmp_path)
    assert page.cells(1) == [["rating", "machine"], ["≥ 4", "0.0500"]]
    assert page.cells(2) == [
        ["RMSE", "1", "2", "3", "4"],
        ["machine", "1.0000", "0.5000", "0.7000", "0.9000"],
    ]
    assert page.cells(3)[1] == ["machine", "1.2500", "1.2500", "1.2500", "1.2500"]


def test_groups_of_users_weigh_their_ratings(tmp_path, monkeypatch):
    monkeypatch.setattr("ordbm.report.evaluation_page._ACTIVITY_GROUPS", 2)
    page = written(evaluation(), tmp_path)
    low = np.sqrt((1 * 1.0**2 + 2 * 0.5**2) / 3)
    high = np.sqrt((3 * 0.7**2 + 4 * 0.9**2) / 7)
    assert page.cells(2) == [
        ["RMSE", "1 to 2", "3 to 4"],
        ["machine", f"{low:.4f}", f"{high:.4f}"],
    ]


def test_folds_are_pooled(tmp_path):
    folds = CrossValidation("machine", [evaluation(), evaluation(shift=0.2)])
    page = written([folds], tmp_path)
    rows = {row[0]: row[1] for row in page.cells(0)}
    assert rows["log-loss ↓"].split() == ["1.3500", "±", "0.1000"]
    assert page.cells(1)[1] == ["≥ 4", "0.0500"]
    assert page.cells(3)[1][1:] == ["1.3500"] * 4
    assert "20 ratings by 4 users, in 2 folds" in page.text
    assert "machine, first fold" in page.text


def test_the_page_holds_everything_itself(tmp_path):
    page = written(
        [evaluation("first"), evaluation("first")], tmp_path, command="ordbm evaluate r.csv"
    )
    assert page.tags["svg"] == 4
    assert page.tags["script"] == page.tags["link"] == page.tags["img"] == 0
    assert page.links
    assert all(link.startswith("#") and link[1:] in page.ids for link in page.links)
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    used = re.findall(r"url\(([^)]*)\)", text)
    assert used
    assert all(url.startswith("#") and url[1:] in page.ids for url in used)
    assert "@import" not in text
    addresses = set(re.findall(r'https?://[^"\s<]+', text))
    assert addresses <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}


def test_pictures_have_ids_of_their_own(tmp_path):
    page = written([evaluation("first"), evaluation("second", shift=0.1)], tmp_path)
    assert page.ids
    assert max(Counter(page.ids).values()) == 1


def test_the_same_evaluations_give_the_same_page(tmp_path):
    day = dt.date(2024, 2, 29)
    first = write_report(evaluation(), tmp_path / "a.html", date=day).read_bytes()
    assert write_report(evaluation(), tmp_path / "b.html", date=day).read_bytes() == first


def test_a_page_has_a_title_of_its_own_and_a_date(tmp_path):
    models = [evaluation("OrdinalBM(hidden=3)"), evaluation("bias"), evaluation("item-knn")]
    page = written(models, tmp_path, date=dt.date(2024, 2, 29))
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "<title>Evaluation of OrdinalBM beside bias, item-knn</title>" in text
    assert "2024-02-29" in page.text
    written(evaluation("bias"), tmp_path)
    today = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "<title>Evaluation of bias</title>" in today
    assert re.search(r"<dt>date</dt><dd>\d{4}-\d\d-\d\d</dd>", today)


def test_all_text_is_escaped(tmp_path):
    nasty = '<script>alert("1")</script>&$title'
    curve = Reliability(4.0, nasty, np.array([0.2]), np.array([0.1]), np.array([50]))
    found = evaluation(nasty, reliability=[curve])
    scores = found.scores | {nasty: 1.0}
    page = written(
        [evaluation(nasty, reliability=[curve], scores=scores)],
        tmp_path,
        title=nasty,
        command=nasty,
        data={nasty: nasty},
    )
    assert page.tags["script"] == 0
    assert page.text.count(nasty) >= 9  # nothing is lost either


def test_what_is_not_there_is_left_out(tmp_path):
    bare = evaluation(
        reliability=[], history=[], weights={}, per_user={}, intervals={}, seconds={}, unknown={}
    )
    page = written(bare, tmp_path, data="some ratings")
    assert page.tags["svg"] == 0
    assert len(page.tables) == 1
    assert "some ratings" in page.text


def test_models_need_not_have_the_same_scores(tmp_path):
    short = evaluation("short", scores={"rmse": float("nan")}, weights={}, per_user={})
    page = written([evaluation("long"), short], tmp_path)
    rows = {row[0]: row[1:] for row in page.cells(0)}
    assert rows["RMSE ↓"][1].startswith("–")
    assert [best for _, best in page.tables[0][1]] == [False, True, False]
    assert rows["log-loss ↓"][1] == "–"


def test_real_evaluations(tmp_path):
    rng = np.random.default_rng(0)
    users, items = rng.integers(30, size=600), rng.integers(20, size=600)
    ratings = Ratings(users, items, rng.integers(1, 6, size=600))
    train, test = hold_out(ratings, 0.3, seed=0)
    machine = OrdinalBM(hidden=3, members=2, item_links=4, epochs=2)
    found = train_and_test(machine, train, test, lists=5, validation=0.2, bootstrap=50)
    page = written([found], tmp_path)
    rows = {row[0]: row[1] for row in page.cells(0)}
    assert rows["RMSE ↓"].startswith(f"{found.scores['rmse']:.4f}")
    assert "nDCG at 5 ↑" in rows
    assert page.tags["svg"] == 2
    machine = OrdinalBM(hidden=3, members=1, item_links=4, epochs=1)
    folds = cross_validate(machine, ratings, 2, bootstrap=0)
    rows = {row[0]: row[1] for row in written(folds, tmp_path).cells(0)}
    assert rows["RMSE ↓"].startswith(f"{folds.scores['rmse']:.4f}")


def test_a_path_that_cannot_be_written(tmp_path):
    for path in (tmp_path / "missing" / "report.html", tmp_path):
        with pytest.raises(OrdbmError, match="cannot write"):
            write_report(evaluation(), path)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(RatingsError, match="nothing to report"):
        write_report([], tmp_path / "report.html")


def test_a_failure_leaves_the_old_page(tmp_path, monkeypatch):
    path = tmp_path / "report.html"
    path.write_text("old")

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OrdbmError, match="No space left"):
        write_report(evaluation(), path, overwrite=True)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
