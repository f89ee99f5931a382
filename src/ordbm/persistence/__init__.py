"""Models and trainings in files."""
