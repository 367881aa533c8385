"""Tiny sweeps that are really run."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from narkit.sweeps.cells import Cell, make_cells

from ..made_up_records import make_record as make_record
from ..made_up_records import write_grid as write_grid
from .on_ray import LONG
from .on_ray import cluster as cluster
from .on_ray import environment as environment
from .on_ray import head_of_cluster as head_of_cluster
from .on_ray import records as records

TINY_SWEEP = {
    "steps": 12,
    "hidden_size": 8,
    "batch_size": 4,
    "sizes": (4,),
    "validate_every": 2,
    "validations": ({"name": "id", "size": 4, "num_samples": 4},),
    "test": False,
}


@pytest.fixture(scope="session")
def tiny_cells() -> Callable[..., list[Cell]]:
    """Makes the cells of a sweep of seconds: two algorithms, one system, two seeds; options may differ."""

    def make(systems: tuple[str, ...] = ("mpnn",), algorithms: tuple[str, ...] = ("minimum", "bfs"), **options):
        return make_cells("quick", systems, algorithms, 2, {**TINY_SWEEP, **options})

    return make


@pytest.fixture(scope="session")
def tiny_arguments() -> list[str]:
    """The same sweep for the command line."""
    settings = [word for name, value in TINY_SWEEP.items() for word in ("--set", f"{name}={json.dumps(value)}")]
    grid = ("--preset", "quick", "--systems", "mpnn", "--algorithms", "minimum,bfs", "--seeds", "2")
    return ["sweep", *grid, *settings, "--save-every", "0"]


@pytest.fixture(scope="session")
def long_arguments(tiny_arguments: list[str]) -> list[str]:
    """The same with cells that are long enough to be disturbed."""
    longer = {f"{name}={TINY_SWEEP[name]}": f"{name}={value}" for name, value in LONG.items()}
    return [longer.get(word, word) for word in tiny_arguments]


@pytest.fixture(scope="session")
def long_sweep(
    tiny_cells: Callable[..., list[Cell]], program_cache: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The folder of a finished sweep of cells that are long enough to be disturbed."""
    from narkit.sweeps.cells import SweepDirectory
    from narkit.sweeps.sweep import run_sweep

    folder = tmp_path_factory.mktemp("long")
    run_sweep(tiny_cells(**LONG), SweepDirectory(folder))
    return folder


@pytest.fixture(scope="session")
def tiny_sweep(
    tiny_cells: Callable[..., list[Cell]], program_cache: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The folder of a finished sweep."""
    from narkit.sweeps.cells import SweepDirectory
    from narkit.sweeps.executor import SweepOptions
    from narkit.sweeps.sweep import run_sweep

    folder = tmp_path_factory.mktemp("whole")
    options = SweepOptions(save_every=0.0, threads=1)
    outcome = run_sweep(tiny_cells(), SweepDirectory(folder), options=options)
    assert [cell.name for cell in outcome.finished] == ["mpnn/minimum", "mpnn/bfs"]
    return folder
