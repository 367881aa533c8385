"""Training: configuration, the compiled programs of several seeds, selection of checkpoints, the loop."""
