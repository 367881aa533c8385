"""`narkit bench data`: microseconds per sample, from a seed to a finished transformed batch, on one core."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

import narkit.algorithms  # registers the algorithms
from narkit import machine
from narkit.bench.reference_process import ReferenceProcess
from narkit.bench.tables import markdown_page, versions_in_words
from narkit.data.execution import check_size, sample
from narkit.printing import print_line, print_table
from narkit.spec import ALGORITHMS

BATCH_SIZE = 32
WARM_UP_BATCHES = 3
FEWEST_BATCHES = 5
REFERENCE_SCRIPT = Path(__file__).with_name("reference_sampler.py")

FIRST_SAMPLE = """
import sys, time
start = time.perf_counter()
import narkit
imported = time.perf_counter()
narkit.sample(sys.argv[1], size=16, batch_size=32, seed=0)
print(imported - start, time.perf_counter() - imported)
"""


@dataclass
class SampleTime:
    """One algorithm at one size: microseconds per sample, ours and the reference's."""

    algorithm: str
    size: int
    ours: float
    reference: float | None = None

    @property
    def ratio(self) -> float | None:
        return None if self.reference is None else self.reference / self.ours


@dataclass
class DataRecord:
    """A whole run with what is needed to judge it."""

    cells: list[SampleTime]
    sizes: list[int]
    batch_size: int
    seconds_per_measurement: float
    cpu: str
    commit: str
    date: str
    versions: dict[str, str]
    reference_versions: dict[str, str] | None
    startup: dict[str, float] = field(default_factory=dict)

    def ratios(self, size: int) -> list[float]:
        return [cell.ratio for cell in self.cells if cell.size == size and cell.ratio is not None]


def measure(
    names: Sequence[str], sizes: Sequence[int], seconds: float, reference_python: Path | None, console: Console
) -> DataRecord:
    """Measures the named algorithms at every size; the reference in turn with ours."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    cells = []
    with machine.one_core(), Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("starting", total=len(names) * len(sizes))
        reference = None if reference_python is None else Reference(reference_python)
        try:
            for name in names:  # sizes that do not fit, before anything is measured
                for size in sizes:
                    check_size(ALGORITHMS[name], size, BATCH_SIZE)
            for name in names:
                for size in sizes:
                    progress.update(task, description=f"{name}, n = {size}")
                    theirs = None if reference is None else reference.microseconds(name, size, seconds)
                    cells.append(SampleTime(name, size, our_microseconds(name, size, seconds), theirs))
                    progress.advance(task)
            progress.update(task, description="first samples in fresh processes")
            startup = _startup([name for name in names if ALGORITHMS[name].function.__module__.startswith("narkit.")])
        finally:
            if reference is not None:
                reference.close()
    return DataRecord(
        cells=cells,
        sizes=list(sizes),
        batch_size=BATCH_SIZE,
        seconds_per_measurement=seconds,
        cpu=machine.cpu_model(),
        commit=machine.commit(),
        date=time.strftime("%Y-%m-%d", time.gmtime()),
        versions={"narkit": narkit.__version__, **machine.versions("numpy", "numba")},
        reference_versions=None if reference is None else reference.versions,
        startup=startup,
    )


def our_microseconds(name: str, size: int, seconds: float) -> float:
    """The median time per sample over fresh batches, compiled code warm."""
    for step in range(WARM_UP_BATCHES):
        sample(name, size=size, batch_size=BATCH_SIZE, seed=0, step=step)
    times: list[float] = []
    while len(times) < FEWEST_BATCHES or sum(times) < seconds:
        start = time.perf_counter()
        sample(name, size=size, batch_size=BATCH_SIZE, seed=0, step=WARM_UP_BATCHES + len(times))
        times.append(time.perf_counter() - start)
    return statistics.median(times) / BATCH_SIZE * 1e6


class Reference(ReferenceProcess):
    """dm-clrs's sampler in another interpreter, on one core."""

    def __init__(self, python: Path):
        super().__init__(python, REFERENCE_SCRIPT, machine.SINGLE_THREADED)

    def microseconds(self, name: str, size: int, seconds: float) -> float:
        request = {"algorithm": name, "size": size, "batch_size": BATCH_SIZE, "seconds": seconds}
        return self.ask(request)["microseconds"]


def _startup(names: Sequence[str]) -> dict[str, float]:
    """Seconds for `import narkit` and for the first sample with a warm cache, each in a fresh process."""
    source = str(Path(narkit.__file__ or "").parents[1])
    environment = {**os.environ, **machine.SINGLE_THREADED, "PYTHONPATH": source}
    imports, firsts = [], []
    for name in names:
        command = [sys.executable, "-c", FIRST_SAMPLE, name]
        answer = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.split()
        imports.append(float(answer[0]))
        firsts.append(float(answer[1]))
    if not names:
        return {}
    return {"import": statistics.median(imports), "first_sample": statistics.median(firsts), "slowest": max(firsts)}


def _rows(record: DataRecord) -> Iterator[list[str]]:
    """The table: one row per algorithm, then the geometric means and the minima of the ratios."""
    by_place = {(cell.algorithm, cell.size): cell for cell in record.cells}
    for name in dict.fromkeys(cell.algorithm for cell in record.cells):
        row = [name]
        for size in record.sizes:
            cell = by_place[name, size]
            row.append(_number(cell.ours))
            if record.reference_versions is not None:
                row += [_number(cell.reference), f"{_number(cell.ratio)}×"]
        yield row
    summaries: list[tuple[str, Callable[[list[float]], float]]] = [
        ("geometric mean", statistics.geometric_mean),
        ("minimum", min),
    ]
    for title, summarise in summaries:
        row = [title]
        for size in record.sizes:
            cells = [cell for cell in record.cells if cell.size == size]
            row.append(_number(summarise([cell.ours for cell in cells])))
            if record.reference_versions is not None:
                theirs = [cell.reference for cell in cells if cell.reference is not None]
                row += [_number(summarise(theirs)), f"{_number(summarise(record.ratios(size)))}×"]
        yield row


def _header(record: DataRecord) -> list[str]:
    header = ["algorithm"]
    for size in record.sizes:
        header.append(f"n={size}: narkit µs")
        if record.reference_versions is not None:
            header += ["dm-clrs µs", "ratio"]
    return header


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def _circumstances(record: DataRecord) -> list[str]:
    lines = [
        f"Microseconds per sample on one core of {record.cpu}: batches of {record.batch_size} from seed to transformed "
        f"batch, every probe stored; medians over {record.seconds_per_measurement:g} s. {record.date}, commit "
        f"{record.commit}, {versions_in_words(record.versions)}."
    ]
    if record.reference_versions is not None:
        theirs = versions_in_words(record.reference_versions)
        lines.append(f"Reference, measured in turn with ours: {theirs}; batches of the same size, one at least.")
    if record.startup:
        lines.append(
            f"`import narkit` {record.startup['import'] * 1e3:.0f} ms; first sample in a fresh process with a warm "
            f"cache {record.startup['first_sample']:.2f} s (median over the algorithms), "
            f"{record.startup['slowest']:.2f} s (slowest)."
        )
    return lines


def print_record(console: Console, record: DataRecord) -> None:
    """Prints the measurements and their circumstances."""
    print_table(console, _header(record), list(_rows(record)))
    for line in _circumstances(record):
        print_line(console, line, "dim")


def as_markdown(record: DataRecord) -> str:
    """The measurements as a Markdown page."""
    return markdown_page("Speed of the data layer", _circumstances(record), _header(record), _rows(record))


def as_json(record: DataRecord) -> str:
    """The record as JSON, ratios and their summaries included."""
    content = asdict(record)
    content["summary"] = {
        str(size): {"geometric_mean": statistics.geometric_mean(ratios), "minimum": min(ratios)}
        for size in record.sizes
        if (ratios := record.ratios(size))
    }
    return json.dumps(content, indent=1) + "\n"
