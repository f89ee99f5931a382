"""Answers for whole parquet datasets, a file for each part: restartable, each part exactly once."""

from ordbm.batch.scoring import predict_dataset, recommend_dataset

__all__ = ["predict_dataset", "recommend_dataset"]
