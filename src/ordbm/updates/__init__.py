"""Fitted models that take in new ratings without learning anew."""
