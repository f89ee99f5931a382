"""Ratings as they come in: ids, scales, both orientations, splits, frames and files."""
