"""Rating data: the embedded set, readers and writers for the usual files, filters.

Public archives are fetched by `ordbm.datasets.download`, which is imported on its own: what it
needs of the network takes longer to load than all of this.
"""

from ordbm.datasets.embedded import load_dataset, load_genres, load_titles
from ordbm.datasets.filters import filter_items
from ordbm.datasets.limits import ReadLimits
from ordbm.datasets.reader import Pairs, read_pairs, read_ratings
from ordbm.datasets.text_columns import matched_ids
from ordbm.datasets.titles import read_titles
from ordbm.datasets.writer import write_ratings

__all__ = [
    "Pairs",
    "ReadLimits",
    "filter_items",
    "load_dataset",
    "load_genres",
    "load_titles",
    "matched_ids",
    "read_pairs",
    "read_ratings",
    "read_titles",
    "write_ratings",
]
