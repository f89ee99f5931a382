"""MovieLens latest-small of October 2016, for research and without commercial use.

`ordbm.load_dataset("movielens-small")` reads it; the terms are in `movielens-small.txt`.
"""
