"""Odd inputs by the million: rating files, model files, settings, command lines."""
