"""Model files whose tables are arrays of their own, so that tests can forge them."""

from unittest import mock

from ordbm.persistence import model_file


def save_plain(model, path):
    """The same model in a file with nothing packed."""
    with mock.patch.object(model_file, "packed_tables", lambda arrays, _: ({}, arrays)):
        model.save(path)
