"""Inference: what a machine says, given ratings. Predictors read a machine and never change it."""
