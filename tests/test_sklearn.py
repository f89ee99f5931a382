"""scikit-learn: copies, grids, cross-validation, pipelines, and those of its checks that fit."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.validation import validate_data

import ordbm
from ordbm.errors import RatingsError
from ordbm.integrations.sklearn import RatingRegressor

SMALL = {"hidden": 3, "epochs": 2, "members": 1, "item_links": 0, "presence": False, "threads": 1}
STARS = (1, 2, 3, 4, 5)


# -- scikit-learn's own checks --------------------------------------------------------------------


class OfAnyWidth(RatingRegressor):
    """Takes the matrices of the checks, of any width: the first column for users, the last for
    items. What is checked is all the rest.
    """

    def fit(self, X, y=None):
        if y is not None:
            X, y = validate_data(self, X, y, y_numeric=True)
        found = super().fit(X, y)
        self.n_features_in_ = X.shape[1]
        return found

    def _pairs(self, X):
        if hasattr(self, "model_"):
            X = validate_data(self, X, reset=False)
        X = np.asarray(X)
        return np.round(X[:, 0]), np.round(X[:, -1])


NOT_FOR_PAIRS = {
    "check_regressors_train": "asks for R² above 0.5 on a linear function of features; ids have "
    "no order to learn it by",
}


@parametrize_with_checks(
    [OfAnyWidth(ordbm.OrdinalBM(**SMALL), scale="continuous")],
    expected_failed_checks=lambda _: NOT_FOR_PAIRS,
)
def test_checks_of_scikit_learn(estimator, check):
    check(estimator)


# -- what people do with it -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def rated():
    """Pairs and their ratings, in which items differ."""
    rng = np.random.default_rng(0)
    pairs = rng.choice(40 * 12, 400, replace=False)
    X = np.stack([pairs // 12, pairs % 12], axis=1)
    return X, np.clip(X[:, 1] // 3 + rng.integers(1, 3, len(X)), 1, 5)


def small(**told):
    return RatingRegressor(ordbm.OrdinalBM(**SMALL | told), scale=STARS)


def test_it_predicts_what_the_model_does(rated):
    X, y = rated
    plain = ordbm.OrdinalBM(**SMALL).fit(ordbm.Ratings(X[:, 0], X[:, 1], y, scale=STARS))
    found = small().fit(X, y)
    np.testing.assert_array_equal(found.predict(X), plain.predict(X[:, 0], X[:, 1]))
    assert isinstance(found.model_, ordbm.OrdinalBM)


@pytest.mark.parametrize(
    "form",
    [
        lambda X: pd.DataFrame({"when": 0, "movieId": X[:, 1], "userId": X[:, 0]}),
        lambda X: pl.DataFrame({"item": X[:, 1], "user": X[:, 0]}),
        lambda X: [tuple(row) for row in X.tolist()],
        lambda X: X.astype(object),
    ],
    ids=["pandas", "polars", "list", "objects"],
)
def test_pairs_come_in_many_forms(rated, form):
    X, y = rated
    np.testing.assert_array_equal(
        small().fit(form(X), y).predict(form(X)), small().fit(X, y).predict(X)
    )


def test_columns_can_be_named(rated):
    X, y = rated
    frame = pd.DataFrame({"who": X[:, 0], "what": X[:, 1]})
    with pytest.raises(RatingsError, match="cannot tell which column is the user"):
        small().fit(frame, y)
    found = small().set_params(user="who", item="what").fit(frame, y)
    np.testing.assert_array_equal(found.predict(frame), small().fit(X, y).predict(X))


@pytest.mark.parametrize("X", [np.zeros((3, 4)), [(1, 2, 3)] * 3, np.zeros(3)], ids=repr)
def test_anything_but_pairs_is_refused(X):
    with pytest.raises(RatingsError, match=r"\(user, item\)"):
        small().fit(X, [1, 2, 3])


def test_a_clone_has_the_settings_and_has_learnt_nothing(rated):
    fitted = small(seed=3).fit(*rated)
    copy = clone(fitted)
    assert copy.model is not fitted.model
    assert copy.get_params()["model__seed"] == 3
    assert copy.model.get_params() == fitted.model.get_params()
    with pytest.raises(NotFittedError):
        copy.predict(rated[0])


def test_fitting_leaves_the_model_that_was_given_as_it_was(rated):
    given = ordbm.OrdinalBM(**SMALL)
    RatingRegressor(given, scale=STARS).fit(*rated)
    with pytest.raises(ordbm.errors.NotFittedError):
        given.predict(1, 1)


def test_a_grid_finds_that_learning_helps(rated):
    search = GridSearchCV(
        small(), {"model__epochs": [0, 8]}, cv=3, scoring="neg_root_mean_squared_error"
    )
    search.fit(*rated)
    assert search.best_params_ == {"model__epochs": 8}
    assert search.best_estimator_.predict(rated[0]).shape == (len(rated[0]),)


def test_cross_validation_scores_every_fold(rated):
    scores = cross_val_score(small(epochs=8), *rated, cv=3)
    assert scores.shape == (3,)
    assert (scores > 0).all()  # better than the mean, whose R² is 0


def test_it_ends_a_pipeline(rated):
    X, y = rated
    wide = np.column_stack([np.zeros(len(X)), X])
    pipeline = make_pipeline(FunctionTransformer(lambda wide: wide[:, 1:]), small())
    np.testing.assert_array_equal(pipeline.fit(wide, y).predict(wide), small().fit(X, y).predict(X))
    assert pipeline.score(wide, y) == small().fit(X, y).score(X, y)


def test_it_can_be_sent_to_other_processes(rated):
    fitted = small().fit(*rated)
    there = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(there.predict(rated[0]), fitted.predict(rated[0]))
