"""A table of scores, and how it is written: Markdown, LaTeX and CSV. The page has a template of its own."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain, groupby

from narkit.report.paper import Score

MISSING = "–"


@dataclass(frozen=True)
class Number:
    """A number and how it is written, such as `Number(1.5, "{:+.2f}")`."""

    value: float
    pattern: str = "{:.2f}"


Entry = Score | Number | str | None
"""An entry of a table; None for what is missing."""


@dataclass(frozen=True)
class Heading:
    """A column of a table. One of scores has three columns in CSV: mean, standard deviation and number of seeds."""

    key: str  # its name in CSV
    label: str = ""  # by default its key
    group: str = ""  # what it has in common with its neighbours, such as the system
    scores: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "label", self.label or self.key)


@dataclass(frozen=True)
class TableRow:
    key: str
    label: str
    entries: Sequence[Entry]
    summary: bool = False  # set off from the rows above it


@dataclass(frozen=True)
class Table:
    """A table with its title, and notes that say how to read it."""

    name: str  # of its files
    title: str
    corner: str  # the heading of the rows' labels
    headings: Sequence[Heading]
    rows: Sequence[TableRow]
    notes: Sequence[str] = ()

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row.entries) != len(self.headings):
                raise ValueError(
                    f"{self.name}, {row.key}: expected {len(self.headings)} entries, got {len(row.entries)}"
                )

    @property
    def groups(self) -> list[tuple[str, int]]:
        """The groups of neighbouring columns, and how many columns each has; none if no heading has a group."""
        members = groupby(heading.group for heading in self.headings)
        found = [(group, len(list(headings))) for group, headings in members]
        return found if any(group for group, _ in found) else []


def text(entry: Entry) -> str:
    """Formats `79.82 ± 1.20 (5)`: the mean, its standard deviation and the number of seeds; `–` for what is missing."""
    match entry:
        case None:
            return MISSING
        case Score(mean, std, seeds):
            spread = f" ± {std:.2f}" if std is not None else ""
            return f"{mean:.2f}{spread}" + (f" ({seeds})" if seeds is not None else "")
        case Number(value, pattern):
            written = pattern.format(value)
            if not any(digit in written for digit in "123456789"):
                written = pattern.format(0.0)  # without the minus sign of a number that was rounded to zero
            return written.replace("-", "−")
        case _:
            return entry


def markdown(table: Table, *, not_run: str = MISSING) -> str:
    """Writes the table in Markdown, without its title. `not_run` stands for missing scores, summaries apart."""
    headings = [f"{heading.group}<br>{heading.label}" if heading.group else heading.label for heading in table.headings]
    lines = [[table.corner, *headings], ["---"] + ["---:"] * len(headings)]
    for row in table.rows:
        cells = [
            not_run if cell is None and heading.scores and not row.summary else text(cell)
            for heading, cell in zip(table.headings, row.entries, strict=True)
        ]
        lines.append([f"**{row.label}**" if row.summary else row.label, *cells])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def bullets(lines: Sequence[str]) -> list[str]:
    """Writes a list in Markdown and an empty line after it; nothing for nothing."""
    return [*(f"- {line}" for line in lines), ""] if lines else []


def as_csv(table: Table) -> str:
    """Writes the table as comma-separated values, with plain numbers at full precision."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    names = [[h.key, f"{h.key}_std", f"{h.key}_seeds"] if h.scores else [h.key] for h in table.headings]
    writer.writerow([table.corner.lower(), *chain.from_iterable(names)])
    for row in table.rows:
        values = [_plain(cell, heading) for heading, cell in zip(table.headings, row.entries, strict=True)]
        writer.writerow([row.key, *chain.from_iterable(values)])
    return out.getvalue()


def _plain(entry: Entry, heading: Heading) -> list[float | int | str | None]:
    """Returns the numbers of an entry, rounded to six digits behind the point, which hides how a sum was ordered."""
    match entry:
        case Score(mean, std, seeds):
            values = [round(mean, 6), None if std is None else round(std, 6), seeds]
        case Number(value):
            values = [round(value, 6)]
        case _:
            values = [entry]
    return [*values, None, None][: 3 if heading.scores else 1]


def latex(table: Table) -> str:
    """Writes the table for LaTeX with booktabs and graphicx, scaled to the width of the text."""
    columns = "l" + "r" * len(table.headings)
    lines = [
        r"\begin{table}[p]",
        r"  \centering",
        rf"  \caption{{{latex_text(' '.join([table.title + '.', *table.notes]))}}}",
        rf"  \label{{tab:{table.name}}}",
        r"  \resizebox{\ifdim\width>\textwidth \textwidth\else\width\fi}{!}{%",
        rf"  \begin{{tabular}}{{{columns}}}",
        r"    \toprule",
        *_latex_groups(table),
        "    " + " & ".join(latex_text(name) for name in [table.corner, *(h.label for h in table.headings)]) + r" \\",
        r"    \midrule",
    ]
    for summary, rows in groupby(table.rows, key=lambda row: row.summary):
        lines += [r"    \midrule"] if summary else []
        for row in rows:
            cells = [latex_text(row.label), *(latex_text(text(cell)) for cell in row.entries)]
            lines.append("    " + " & ".join(cells) + r" \\")
    return "\n".join([*lines, r"    \bottomrule", r"  \end{tabular}}", r"\end{table}"]) + "\n"


def _latex_groups(table: Table) -> list[str]:
    """Writes the line above the headings that names the groups of neighbouring columns."""
    if not table.groups:
        return []
    cells, rules, start = [""], [], 2
    for group, count in table.groups:
        cells.append(rf"\multicolumn{{{count}}}{{c}}{{{latex_text(group)}}}")
        rules += [rf"\cmidrule(lr){{{start}-{start + count - 1}}}"] if group else []
        start += count
    return ["    " + " & ".join(cells) + r" \\", "    " + " ".join(rules)]


LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "_": r"\_", "#": r"\#", "$": r"\$", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", ">": r"$>$", "<": r"$<$", "±": r"$\pm$", "−": r"$-$",
    "+": r"$+$", "–": "--", "×": r"$\times$", "≤": r"$\le$", "’": "'", "`": "", "√": r"$\surd$", "²": r"$^2$",
}  # fmt: skip


def latex_text(words: str) -> str:
    """Escapes plain words for LaTeX."""
    return "".join(LATEX.get(letter, letter) for letter in words)


def document(names: Sequence[str], figures: Sequence[str]) -> str:
    """Writes a whole LaTeX document that shows tables and figures that lie beside it."""
    lines = [
        r"\documentclass{article}",
        r"\usepackage[margin=2cm]{geometry}",
        r"\usepackage{booktabs}",
        r"\usepackage{graphicx}",
        r"\begin{document}",
        *(rf"\input{{{name}}}" for name in names),
        *(
            rf"\begin{{figure}}[p]\centering\includegraphics[width=\textwidth]{{{name}.png}}\end{{figure}}"
            for name in figures
        ),
        r"\end{document}",
    ]
    return "\n".join(lines) + "\n"


FORMATS: dict[str, Callable[[Table], str]] = {
    ".md": lambda table: "\n".join([f"# {table.title}", "", markdown(table), *(f"{note}\n" for note in table.notes)]),
    ".tex": latex,
    ".csv": as_csv,
}
"""The formats that a report keeps its tables in."""
