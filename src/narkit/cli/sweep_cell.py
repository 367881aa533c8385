"""`python -m narkit.cli.sweep_cell`: the process of one cell, which reads its `Order` from the standard input."""

from __future__ import annotations

import os
import pickle
import sys
import time
from dataclasses import replace

from rich.console import Console

from narkit.cli.sweep_display import SweepDisplay
from narkit.sweeps.side_by_side import CANNOT_GO_ON, Order
from narkit.sweeps.sweep import run_sweep
from narkit.training.checkpoint import CheckpointWriteError


def main() -> int:
    order: Order = pickle.load(sys.stdin.buffer)
    # Many processes write to this terminal, so none draws a live table there.
    display = SweepDisplay(Console(force_terminal=False), order.cells, order.directory)
    budget = None if order.ends_at is None else max(0.0, order.ends_at - time.time())
    options = replace(order.options, budget=budget)
    try:
        with display:
            run_sweep([order.cell], order.directory, options=options, observer=display)
    except (CheckpointWriteError, OSError) as error:
        display.say(f"Error: {error}", "red")
        return CANNOT_GO_ON
    return 0


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # at once: a thread that still compiles cannot be stopped, and nobody needs what it makes
