"""Compiled loops over plain arrays. Import a module from here at call time: it loads Numba."""
