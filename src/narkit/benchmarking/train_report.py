"""The measurements of `narkit bench train` as tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from narkit.benchmarking.profiling import KernelTime, Trace
from narkit.benchmarking.projection import project
from narkit.benchmarking.train_record import Cell, Record

HEADER = (
    "algorithm", "n", "kernels fwd", "bwd", "outside", "proc. steps", "ms/proc. step", "in the loop", "outside",
    "ms/step", "waiting", "compile s", "MB", "path",
)  # fmt: skip
NOT_COUNTED = "not counted"
LONGEST = 20


def print_record(console: Console, record: Record) -> None:
    """All cells by processor, then failures, projections and circumstances."""
    groups = dict.fromkeys((cell.processor, cell.implementation) for cell in record.cells)
    for processor, implementation in groups:
        table = Table(title=f"{processor} ({implementation})", title_justify="left")
        for i, title in enumerate(HEADER):
            table.add_column(title, justify="right" if i else "left")
        for cell in record.cells:
            if (cell.processor, cell.implementation) == (processor, implementation):
                table.add_row(*_row(cell))
        console.print(table)
    for compilation in record.compilations:
        console.print(
            f"{compilation.algorithm}, {compilation.processor} ({compilation.implementation}): {compilation.programs} "
            f"compilations in {compilation.seconds:.1f} s on {compilation.threads} threads; the slowest took "
            f"{max(compilation.program_seconds, default=0.0):.1f} s",
            highlight=False,
            soft_wrap=True,
        )
    for failure in record.failures:
        console.print(
            f"failed: {failure.algorithm}, {failure.processor} ({failure.implementation}), {failure.where}: "
            f"{failure.error}",
            style="red",
            highlight=False,
            markup=False,
            soft_wrap=True,
        )
    _print_projections(console, record)
    for line in circumstances(record):
        console.print(line, style="dim", highlight=False, soft_wrap=True)


def _row(cell: Cell) -> list[str]:
    counts = [cell.launched(where) for where in ("forward", "backward", "outside")]
    counted = [NOT_COUNTED, "", ""] if cell.launches is None else [str(count) for count in counts]
    return [
        cell.algorithm,
        str(cell.size),
        *counted,
        f"{cell.processor_steps:.1f}",
        _ms(cell.processor_step_ms),
        _ms(cell.loop_ms),
        _ms(cell.outside_ms),
        _ms(cell.step_ms),
        f"{100 * cell.waiting_share:.1f} %",
        " + ".join(f"{second:.1f}" for second in cell.compile_seconds),
        "" if cell.program_bytes is None else f"{cell.program_bytes / 1e6:,.0f}",
        _paths(cell.paths),
    ]


def _ms(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.3f}" if value < 10 else f"{value:.1f}"


def _paths(paths: dict[str, str]) -> str:
    """`fused`, `plain`, or which part is which."""
    kinds = Counter(paths.values())
    if len(kinds) == 1:
        return next(iter(kinds))
    return ", ".join(f"{part}: {kind}" for part, kind in paths.items())


def _print_projections(console: Console, record: Record) -> None:
    for processor in record.processors:
        found = project(record, processor)
        if found is None or found.algorithms < 2:
            continue
        console.print(
            f"{processor}, 10,000 steps of {found.algorithms} algorithms: {found.total / 60:.1f} min = training "
            f"{found.training / 60:.1f} + validation {found.validation / 60:.1f} + test {found.test / 60:.1f} + "
            f"compilation {found.compilation / 60:.1f}; {found.milliseconds_per_processor_step:.3f} ms per processor "
            f"step all in. Formula: {found.formula}.",
            highlight=False,
            soft_wrap=True,
        )
        for text, names in (("not in the sum", found.missing), ("without evaluation", found.without_evaluation)):
            if names:
                console.print(f"  {text}: {', '.join(names)}", highlight=False, soft_wrap=True)


def circumstances(record: Record) -> list[str]:
    """Where and with what it was measured, and what the columns mean."""
    versions = ", ".join(f"{name} {version}" for name, version in record.versions.items())
    peak = max((cell.peak_bytes for cell in record.cells if cell.peak_bytes is not None), default=None)
    memory = "the device does not report its peak memory" if peak is None else f"peak memory {peak / 1e9:.2f} GB"
    cache = "on" if record.compilation_cache else "off"
    lines = [
        f"{record.device} ({record.backend}), {record.num_seeds} seeds as one program, batch {record.batch_size}, "
        f"h = {record.hidden_size}, forward + backward + Adam; {memory}; compilation cache {cache}. {record.date}, "
        f"commit {record.commit}, {versions}.",
        "Kernels per processor step, forward and backward, and once per training step outside the loops, counted from "
        "the compiled program. Milliseconds: a run of fresh batches with several steps in flight, divided by its "
        "processor steps and by its training steps; and what one more processor step costs.",
    ]
    if not record.complete:
        lines.append("Not complete: the budget was spent, or the run was stopped. --append goes on with it.")
    return lines


def print_longest(console: Console, title: str, trace: Trace, kernels: Sequence[KernelTime]) -> None:
    """The kernels with the most time."""
    total = sum(kernel.milliseconds for kernel in kernels)
    runs = sum(kernel.runs for kernel in kernels)
    steps = trace.processor_steps
    table = Table(title=f"{title}: where the time went", title_justify="left")
    for i, column in enumerate(("kernel", "µs per processor step", "share", "runs per processor step")):
        table.add_column(column, justify="right" if i else "left", no_wrap=i == 0, max_width=70 if i == 0 else None)
    for kernel in kernels[:LONGEST]:
        table.add_row(
            kernel.name,
            f"{1e3 * kernel.milliseconds / steps:.1f}",
            f"{100 * kernel.milliseconds / total:.1f} %",
            f"{kernel.runs / steps:.1f}",
        )
    console.print(table)
    console.print(
        f"all {len(kernels)} kernels: {1e3 * total / steps:.1f} µs and {runs / steps:.1f} runs per processor step; "
        f"trace in {trace.folder}",
        highlight=False,
        soft_wrap=True,
    )
