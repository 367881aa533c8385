"""The work of `narkit bench train`: it runs the measurements, shows and stores them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
from rich.console import Console

from narkit import machine
from narkit.bench import profiling, train, train_reference, train_report
from narkit.bench.compilation import Prepared
from narkit.bench.train_record import DEFAULT_PRESET, BenchRecord
from narkit.bench.training_steps import load_plain_team
from narkit.cli.choices import plain_errors, store
from narkit.printing import print_line

# What the measurements of a record share.
SETTINGS = ("device", "sizes", "hidden_size", "batch_size", "num_seeds", "preset", "settings")
WIDTH = 190  # of the tables where no terminal says otherwise


class IncompatibleRecord(OSError):
    """A stored record cannot be continued or replaced by what was asked for."""


def run(options: train.BenchOptions, out: Path | None, append: bool, profile: Path | None) -> None:
    """Measures and prints; with `out` stores, with `profile` traces each network at its largest size, too."""
    if options.plain:
        with plain_errors("--plain"):
            load_plain_team()
    with plain_errors("--out"):
        record = _start(options, out, append)
    console = _wide_console()

    def save() -> None:
        store(out, record.to_json(), train_report.as_markdown(record))

    for prepared in train.measure(options, record, _tell, save):
        if profile is not None:
            with plain_errors("--profile"):
                _trace(console, prepared, profile)
    save()
    train_report.print_record(console, record)
    _tell_where(console, out)


def compare(python: Path, options: train.BenchOptions, out: Path | None) -> None:
    """Compares training steps on the CPU with dm-clrs in another interpreter."""
    if jax.default_backend() != "cpu":
        raise OSError("the comparison with dm-clrs is one of CPUs; set JAX_PLATFORMS=cpu")
    settings = {"algorithm": train_reference.ALGORITHM, "size": train_reference.SIZE}
    shape = {"hidden_size": options.hidden_size, "batch_size": options.batch_size}
    with plain_errors("--out"):
        _refuse_other(out, settings | shape | {"cpu": machine.cpu_model()})
    record = train_reference.compare(python, options, _tell)
    page, console = train_reference.page(record), _wide_console()
    page.print(console)
    store(out, train_reference.as_json(record), page.markdown())
    _tell_where(console, out)


def _wide_console() -> Console:
    """Returns a console that does not fold the tables' columns when its output goes to a file."""
    return Console() if Console().is_terminal else Console(width=WIDTH)


def _tell(text: str) -> None:
    print_line(Console(stderr=True), text, "dim")


def _tell_where(console: Console, out: Path | None) -> None:
    if out is None:
        print_line(console, "not stored; --out FILE keeps it as FILE.json and FILE.md")
    else:
        print_line(console, f"stored: {out.with_suffix('.json')} and {out.with_suffix('.md')}")


def _start(options: train.BenchOptions, out: Path | None, append: bool) -> BenchRecord:
    """Returns the record to fill: a new one, or the stored one."""
    fresh = train.new_record(options)
    _refuse_other(out, {name: getattr(fresh, name) for name in SETTINGS})
    if out is None or not append or not (path := out.with_suffix(".json")).exists():
        return fresh
    try:
        known = BenchRecord.from_json(path.read_text())
    except (ValueError, KeyError, TypeError) as error:
        raise IncompatibleRecord(f"{path} cannot be continued: {error}; leave out --append to replace it") from None
    return replace(known, complete=False, versions=fresh.versions, commit=fresh.commit, date=fresh.date)


def _refuse_other(out: Path | None, settings: Mapping[str, Any]) -> None:
    """Raises if there is a record that was measured otherwise: a laptop must not replace what a GPU measured."""
    if out is None or not (path := out.with_suffix(".json")).exists():
        return
    try:  # records from before there was a choice do not say these two
        stored = {"preset": DEFAULT_PRESET, "settings": {}} | json.loads(path.read_text())
    except (ValueError, TypeError):
        stored = {}
    if not settings.keys() <= stored.keys():
        raise IncompatibleRecord(f"{path} is no record of such measurements; give another --out, or delete the file")
    differing = [name for name, value in settings.items() if stored[name] != value]
    if differing:
        theirs, ours = (", ".join(f"{name} {each[name]}" for name in differing) for each in (stored, settings))
        raise IncompatibleRecord(
            f"{path} was measured with {theirs}; this would be {ours}; give another --out, measure with the same "
            "settings, or delete the file"
        )


def _trace(console: Console, prepared: Prepared, folder: Path) -> None:
    jobs = [job for job in prepared.jobs if job.batch is not None]
    if not jobs:
        return
    job = max(jobs, key=lambda job: job.size)
    implementation, processor, algorithm = prepared.network
    title = f"{algorithm}, {processor} ({implementation}), n = {job.size}"
    folder /= f"{algorithm}-{processor}-{implementation}-{job.size}".replace(" ", "-")
    steps = profiling.trace(prepared, job, folder)
    try:
        train_report.print_longest(console, title, folder, steps, profiling.longest_kernels(folder))
    except (RuntimeError, ValueError) as error:
        print_line(console, f"{title}: trace in {folder}, not summarised: {error}")
