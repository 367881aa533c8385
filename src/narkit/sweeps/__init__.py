"""Sweeps: many runs, planned, run and kept as records."""
