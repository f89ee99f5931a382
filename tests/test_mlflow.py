"""The loader that MLflow calls, without MLflow; and the whole way through it, where it is."""

import subprocess
import sys
from importlib.util import find_spec

import numpy as np
import pandas as pd
import pytest

import ordbm
from ordbm.errors import ModelFileError, SettingsError
from ordbm.integrations import mlflow as flavour

PAIRS = pd.DataFrame({"movieId": [1, 2, 99], "userId": [0, 3, 3]})


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(0)
    ratings = ordbm.Ratings(*rng.integers(10, size=(2, 60)), rng.integers(1, 6, 60))
    told = {"hidden": 2, "epochs": 1, "members": 1, "item_links": 0, "presence": False}
    return ordbm.OrdinalBM(**told).fit(ratings)


def expected(model):
    return model.predict_table(PAIRS["userId"], PAIRS["movieId"], backend="pandas")


@pytest.mark.parametrize("name", ["model.ordbm", ""], ids=["file", "folder"])
def test_the_loader_predicts_as_the_model(model, tmp_path, name):
    model.save(tmp_path / flavour.MODEL_FILE)
    loaded = flavour._load_pyfunc(tmp_path / name)
    pd.testing.assert_frame_equal(loaded.predict(PAIRS), expected(model))
    renamed = PAIRS.set_axis(["what", "who"], axis=1)
    told = {"user": "who", "item": "what", "method": "mean_field"}
    assert len(loaded.predict(renamed, told)) == len(PAIRS)


def test_a_file_that_is_no_model_is_refused_and_never_unpickled(tmp_path):
    (tmp_path / flavour.MODEL_FILE).write_bytes(b"cos\nsystem\n(S'exit 1'\ntR.")
    with pytest.raises(ModelFileError):
        flavour._load_pyfunc(tmp_path)


def test_loading_imports_neither_mlflow_nor_scikit_learn(model, tmp_path):
    model.save(tmp_path / flavour.MODEL_FILE)
    code = (
        "import sys; from ordbm.integrations.mlflow import _load_pyfunc; "
        "_load_pyfunc(sys.argv[1]); "
        "sys.exit('mlflow' in sys.modules or 'sklearn' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)


@pytest.mark.skipif(find_spec("mlflow") is not None, reason="MLflow is installed")
def test_without_mlflow_the_error_says_what_to_install(model, tmp_path):
    with pytest.raises(SettingsError, match="pip install mlflow"):
        flavour.save_model(model, tmp_path / "saved")


@pytest.mark.skipif(find_spec("mlflow") is None, reason="MLflow is not installed")
@pytest.mark.filterwarnings("ignore")
def test_mlflow_saves_and_loads_it(model, tmp_path):
    import mlflow.pyfunc

    flavour.save_model(model, tmp_path / "saved")
    loaded = mlflow.pyfunc.load_model(str(tmp_path / "saved"))
    pd.testing.assert_frame_equal(loaded.predict(PAIRS), expected(model))
    kept = [path.name for path in (tmp_path / "saved").rglob("*") if path.is_file()]
    assert flavour.MODEL_FILE in kept
    assert not [name for name in kept if name.endswith((".pkl", ".pickle"))]
