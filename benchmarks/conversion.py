"""How long it takes to hand trajectories over to other packages.

    python benchmarks/conversion.py --out benchmarks/conversion.md

Converts 1,000 samples of breadth-first search with 16 nodes, the official training split, into what each package works
with; medians of several repeats. The samples are made beforehand. Packages that are not installed are left out.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import narkit
from narkit.interop import samples, tables
from narkit.machine import commit, cpu_model

ALGORITHM = "bfs"


def conversions(batch: narkit.Batch, folder: Path) -> dict[str, Callable[[], object]]:
    """What is measured, by name."""
    found: dict[str, Callable[[], object]] = {
        "dictionaries of arrays (NumPy)": lambda: list(samples.samples(samples.widened(batch))),
        "lists of edges (NumPy)": lambda: list(samples.edge_lists(samples.widened(batch))),
        "NPZ file": lambda: tables.write(batch, folder / "set.npz", force=True),
    }
    if installed("pyarrow"):
        found["Parquet file"] = lambda: tables.write(batch, folder / "set.parquet", force=True)
    if installed("networkx"):
        found["NetworkX graphs"] = lambda: narkit.interop.networkx.graphs(batch)
    if installed("torch"):
        found["PyTorch dataset, every item read"] = lambda: every_item(narkit.interop.torch.Trajectories(batch))
    if installed("torch_geometric"):
        found["PyTorch Geometric objects"] = lambda: narkit.interop.pyg.convert(batch)
    return found


def every_item(data) -> list:
    return [data[index] for index in range(len(data))]


def installed(package: str) -> bool:
    return bool(version(package))


def version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def measure(convert: Callable[[], object], repeats: int) -> float:
    """The median number of seconds of several repeats, after one that does not count."""
    convert()
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        convert()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


def main(arguments: Sequence[str] | None = None) -> dict[str, float]:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--count", type=int, default=1000, help="The number of samples.")
    parser.add_argument("--size", type=int, default=16, help="The number of nodes of each.")
    parser.add_argument("--repeats", type=int, default=5, help="How often each conversion is timed.")
    parser.add_argument("--out", type=Path, help="The Markdown file to write.")
    options = parser.parse_args(arguments)
    batch = samples.choose_batch(ALGORITHM, "train", size=options.size, count=options.count)
    with tempfile.TemporaryDirectory() as folder:
        seconds = {
            name: measure(convert, options.repeats) for name, convert in conversions(batch, Path(folder)).items()
        }
    text = page(seconds, options.count, options.size, options.repeats)
    print(text)
    if options.out:
        options.out.write_text(text)
    return seconds


def page(seconds: dict[str, float], count: int, size: int, repeats: int) -> str:
    packages = ("numpy", "pyarrow", "networkx", "torch", "torch_geometric")
    versions = ", ".join(f"{name} {version(name)}" for name in ("narkit", *packages) if version(name))
    lines = [
        "# Handing trajectories over to other packages",
        "",
        f"Seconds for {count:,} samples of {ALGORITHM} with {size} nodes, medians of {repeats}, on {cpu_model()}; "
        f"commit {commit()}; {versions}.",
        "Measured by `python benchmarks/conversion.py --out benchmarks/conversion.md`.",
        "",
        "| into | seconds |",
        "| --- | ---: |",
        *(f"| {name} | {value:.3f} |" for name, value in seconds.items()),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
