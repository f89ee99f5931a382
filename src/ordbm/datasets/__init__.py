"""Rating data: the embedded set, readers for the usual files, filters."""

from ordbm.datasets.embedded import load_dataset, load_genres, load_titles
from ordbm.datasets.filters import filter_items
from ordbm.datasets.movielens import read_movielens

__all__ = ["filter_items", "load_dataset", "load_genres", "load_titles", "read_movielens"]
