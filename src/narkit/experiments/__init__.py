"""Experiments and their reports. `paper/` holds the paper's three tables as data."""
