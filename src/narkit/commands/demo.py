"""`narkit demo`: what narkit can do today, in less than a minute.

The demo is a list of stages under one progress bar. A stage takes the folder for pictures and returns what to print.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

ALGORITHM, SIZE, SEED, DENSITY = "dijkstra", 5, 1, 0.7

Stage = Callable[[Path], RenderableType]


def _follow_a_run(folder: Path) -> RenderableType:
    """The run as text, captured so that the progress bar stays below it."""
    from rich.text import Text

    from narkit.commands.show import print_run, random_run

    console = Console()
    with console.capture() as capture:
        print_run(console, random_run(ALGORITHM, SIZE, SEED, DENSITY))
    return Text.from_ansi(capture.get())


def _draw_a_run(folder: Path) -> RenderableType:
    from narkit.commands.picture import save_picture
    from narkit.commands.show import random_run

    path = folder / f"{ALGORITHM}.png"
    save_picture(random_run(ALGORITHM, SIZE, SEED, DENSITY), path)
    return f"the same run as a picture: {path}"


def _sample_a_batch(folder: Path) -> RenderableType:
    import time

    from narkit.data.execution import sample

    sample(ALGORITHM, size=16, batch_size=32, seed=0)
    start = time.perf_counter()
    batch = sample(ALGORITHM, size=16, batch_size=32, seed=0, step=1)
    microseconds = (time.perf_counter() - start) / len(batch) * 1e6
    return f"training data, ready for a network: {batch!r}, {microseconds:.1f} µs per sample"


STAGES: tuple[tuple[str, Stage], ...] = (
    (f"compiling and running {ALGORITHM}", _follow_a_run),
    ("drawing the run", _draw_a_run),
    ("sampling a training batch", _sample_a_batch),
)


def run_demo(console: Console, folder: Path) -> None:
    """Runs every stage and prints what it returns."""
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=len(STAGES))
        for description, stage in STAGES:
            progress.update(task, description=description)
            progress.console.print(stage(folder), highlight=False)
            progress.advance(task)
    console.print("next: narkit list, narkit data show ALGORITHM, README.md", style="dim")
