"""Batches of trajectories: made, transformed, split, and streamed."""
