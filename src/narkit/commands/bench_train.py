"""`narkit bench train`: runs the measurements, shows and stores them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console

from narkit.benchmarking import profiling, train, train_reference, train_report
from narkit.benchmarking.programs_of_step import Prepared
from narkit.benchmarking.subjects import load_plain_team
from narkit.benchmarking.train_record import Record
from narkit.commands.choices import plain_errors
from narkit.files import write_with_folder

WIDTH = 190  # of the tables where no terminal says otherwise


def wide_console() -> Console:
    """A console that does not fold the tables' columns when its output goes to a file."""
    return Console() if Console().is_terminal else Console(width=WIDTH)


class IncompatibleRecord(OSError):
    """A stored record cannot be continued by what was asked for."""


def run(console: Console, options: train.Options, out: Path, append: bool, profile: Path | None) -> Record:
    """Measures, prints and stores; with `profile` also traces each network at its largest size."""
    if options.plain:
        with plain_errors("--plain"):
            load_plain_team()
    with plain_errors("--out"):
        record = _start(options, out, append)

    def save() -> None:
        with plain_errors("--out"):
            write_with_folder(out, train.as_json(record))

    for prepared in train.measure(options, record, _teller(Console(stderr=True)), save):
        if profile is not None:
            with plain_errors("--profile"):
                _trace(console, prepared, profile)
    save()
    train_report.print_record(console, record)
    console.print(f"stored: {out}", highlight=False, soft_wrap=True)
    return record


def compare(
    console: Console,
    python: Path,
    processors: Sequence[str],
    steps: int,
    hidden_size: int,
    batch_size: int,
    out: Path | None,
) -> None:
    """Compares training steps on the CPU with dm-clrs in another interpreter."""
    import jax

    if jax.default_backend() != "cpu":
        raise OSError("the comparison with dm-clrs is one of CPUs; set JAX_PLATFORMS=cpu")
    path = out or Path("benchmarks/train_cpu.json")
    record = train_reference.compare(
        python, processors, "bfs", 16, hidden_size, batch_size, steps, _teller(Console(stderr=True))
    )
    train_reference.print_table(console, record)
    write_with_folder(path.with_suffix(".json"), train_reference.as_json(record))
    write_with_folder(path.with_suffix(".md"), train_reference.as_markdown(record))


def _teller(console: Console) -> Callable[[str], None]:
    return lambda text: console.print(text, style="dim", highlight=False, soft_wrap=True)


def _start(options: train.Options, out: Path, append: bool) -> Record:
    fresh = train.new_record(options)
    if not append or not out.exists():
        return fresh
    try:
        known = Record.from_json(out.read_text())
    except (ValueError, KeyError, TypeError) as error:
        raise IncompatibleRecord(f"{out} cannot be continued: {error}; leave out --append to replace it") from None
    for name in ("device", "hidden_size", "batch_size", "num_seeds", "sizes"):
        theirs, ours = getattr(known, name), getattr(fresh, name)
        if theirs != ours:
            raise IncompatibleRecord(
                f"{out} was measured with {name} {theirs}, this would be {ours}; give another --out, or leave out "
                "--append to replace it"
            )
    known.complete = False
    known.versions, known.commit, known.date = fresh.versions, fresh.commit, fresh.date
    return known


def _trace(console: Console, prepared: Prepared, folder: Path) -> None:
    config = prepared.subject.config
    jobs = [job for job in prepared.jobs if job.meal is not None]
    if not jobs:
        return
    job = max(jobs, key=lambda job: job.size)
    title = f"{config.algorithms[0]}, {config.processor} ({prepared.subject.implementation}), n = {job.size}"
    name = "-".join([config.algorithms[0], config.processor, prepared.subject.implementation, str(job.size)])
    trace = profiling.trace(prepared, job, folder / name.replace(" ", "-"))
    try:
        kernels = profiling.longest_kernels(trace.folder)
    except (RuntimeError, ValueError) as error:
        console.print(f"{title}: trace in {trace.folder}, not summarised: {error}", soft_wrap=True, highlight=False)
        return
    train_report.print_longest(console, title, trace, kernels)
