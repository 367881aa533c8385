"""The measurements of `narkit bench train` as tables, on a console and as a Markdown page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from narkit.bench.profiling import KernelTime
from narkit.bench.tables import markdown_table, versions_in_words
from narkit.bench.train_record import DEFAULT_PRESET, NARKIT, PLAIN, BenchRecord, Measurement
from narkit.printing import print_line, print_table

HEADER = (
    "algorithm", "n", "kernels fwd", "kernels bwd", "kernels outside", "proc. steps", "ms/proc. step",
    "ms in the loop", "ms outside", "ms/step", "waiting", "compile s", "MB", "path",
)  # fmt: skip
COMPARISON_HEADER = (
    "processor", "algorithm", "n", "narkit ms/step", "plain JAX ms/step", "ratio", "narkit ms/proc. step",
    "plain JAX ms/proc. step", "ratio",
)  # fmt: skip
COMPARISON = (
    "narkit's network and the same network written out in plain JAX, measured in one run on the same data. Plain JAX "
    "takes as many processor steps as the hints have room for, narkit as many as the longest sample needs; the second "
    "ratio is per processor step and leaves that advantage out."
)
COMPILATION = (
    "Seconds until all programs of an algorithm were compiled, shared out among algorithms that were compiled at the "
    "same time; and the seconds of the slowest program."
)
COMPILATION_HEADER = ("processor", "implementation", "algorithm", "programs", "s", "slowest s", "threads")
NOT_COUNTED = "not counted"
KERNEL_HEADER = ("kernel", "µs per processor step", "share", "runs per processor step")
MOST_KERNELS, LONGEST_NAME = 20, 70


def print_record(console: Console, record: BenchRecord) -> None:
    """Prints all measurements by processor, then compilations, failures and circumstances."""
    for title, cells in _groups(record).items():
        print_table(console, HEADER, [_row(cell) for cell in cells], title)
    if rows := _comparison_rows(record):
        print_table(console, COMPARISON_HEADER, rows, "beside plain JAX")
    if rows := _compilation_rows(record):
        print_table(console, COMPILATION_HEADER, rows, "compilation")
    for line in _failure_lines(record):
        print_line(console, f"failed: {line}", "red")
    for line in circumstances(record):
        print_line(console, line, "dim")


def _groups(record: BenchRecord) -> dict[str, list[Measurement]]:
    """Groups the measurements by processor and implementation."""
    groups: dict[str, list[Measurement]] = {}
    for cell in record.cells:
        groups.setdefault(f"{cell.processor} ({cell.implementation})", []).append(cell)
    return groups


def _comparison_rows(record: BenchRecord) -> list[list[str]]:
    """Returns the rows that compare narkit with plain JAX, where one run measured both."""
    plain = {cell.place[1:]: cell for cell in record.cells if cell.implementation == PLAIN}
    rows = []
    for ours in record.cells:
        theirs = plain.get(ours.place[1:])
        if ours.implementation != NARKIT or theirs is None:
            continue
        if (ours.commit, ours.date) != (theirs.commit, theirs.date):  # of another run
            continue
        row = [ours.processor, ours.algorithm, str(ours.size)]
        for a, b in ((ours.step_ms, theirs.step_ms), (ours.processor_step_ms, theirs.processor_step_ms)):
            row += [_ms(a), _ms(b), f"{b / a:.1f}×"]
        rows.append(row)
    return rows


def _row(cell: Measurement) -> list[str]:
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
    """Says which path the parts take: `fused` or `plain`, or which part takes which."""
    kinds = set(paths.values())
    if len(kinds) == 1:
        return kinds.pop()
    return ", ".join(f"{part}: {kind}" for part, kind in paths.items())


def circumstances(record: BenchRecord) -> list[str]:
    """Says where and with what it was measured, and what the columns mean."""
    peak = max((cell.peak_bytes for cell in record.cells if cell.peak_bytes is not None), default=None)
    memory = "the device does not report its peak memory" if peak is None else f"peak memory {peak / 1e9:.2f} GB"
    cache = "on" if record.compilation_cache else "off"
    preset = "" if record.preset == DEFAULT_PRESET else f"settings of the preset {record.preset}, "
    preset += "".join(f"{name} = {value}, " for name, value in record.settings.items())
    commits = ", ".join(dict.fromkeys(cell.commit for cell in record.cells)) or record.commit
    lines = [
        f"{record.device} ({record.backend}), {record.num_seeds} seeds as one program, batch {record.batch_size}, "
        f"h = {record.hidden_size}, {preset}forward + backward + Adam; {memory}; compilation cache {cache}. "
        f"{record.date}, commit {commits}, {versions_in_words(record.versions)}.",
        "Kernels per processor step, forward and backward, and once per training step outside the loops, counted from "
        "the compiled program. Milliseconds: a run of fresh batches with several steps in flight, divided by its "
        "processor steps and by its training steps; and what one more processor step costs.",
    ]
    if not record.complete:
        lines.append("Not complete: the budget was spent, or the run was stopped. --append goes on with it.")
    return lines


def as_markdown(record: BenchRecord) -> str:
    """Returns the measurements as a Markdown page."""
    lines = ["# Speed of training steps", ""]
    for line in circumstances(record):
        lines += [line, ""]
    for title, cells in _groups(record).items():
        paths = dict.fromkeys(_paths(cell.paths) for cell in cells)
        shared = len(paths) == 1
        lines += [f"## {title}", "", *([f"Path: {next(iter(paths))}.", ""] if shared else [])]
        columns = len(HEADER) - shared  # the path is the last one
        lines += markdown_table(HEADER[:columns], [_row(cell)[:columns] for cell in cells], names=1)
    if rows := _comparison_rows(record):
        lines += ["## Beside plain JAX", "", COMPARISON, "", *markdown_table(COMPARISON_HEADER, rows, names=2)]
    if rows := _compilation_rows(record):
        lines += ["## Compilation", "", COMPILATION, ""]
        lines += markdown_table(COMPILATION_HEADER, rows, names=3)
    if record.failures:
        lines += ["## Failures", "", *(f"- {line}" for line in _failure_lines(record))]
    return "\n".join(lines).rstrip() + "\n"


def _compilation_rows(record: BenchRecord) -> list[list[str]]:
    return [
        [
            each.processor, each.implementation, each.algorithm, str(each.programs), f"{each.seconds:.1f}",
            f"{max(each.program_seconds, default=0.0):.1f}", str(each.threads),
        ]
        for each in record.compilations
    ]  # fmt: skip


def _failure_lines(record: BenchRecord) -> list[str]:
    return [
        f"{failed.algorithm}, {failed.processor} ({failed.implementation}), {failed.where}: {failed.error}"
        for failed in record.failures
    ]


def print_longest(console: Console, title: str, trace: Path, steps: int, kernels: Sequence[KernelTime]) -> None:
    """Prints the kernels with the most time in a trace of so many processor steps."""
    total = sum(kernel.milliseconds for kernel in kernels)
    runs = sum(kernel.runs for kernel in kernels)
    rows = [
        [
            kernel.name[:LONGEST_NAME],
            f"{1e3 * kernel.milliseconds / steps:.1f}",
            f"{100 * kernel.milliseconds / total:.1f} %",
            f"{kernel.runs / steps:.1f}",
        ]
        for kernel in kernels[:MOST_KERNELS]
    ]
    print_table(console, KERNEL_HEADER, rows, f"{title}: where the time went")
    summary = f"{1e3 * total / steps:.1f} µs and {runs / steps:.1f} runs per processor step"
    print_line(console, f"all {len(kernels)} kernels: {summary}; trace in {trace}")
