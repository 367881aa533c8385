"""Writes a report: tables, figures, the page that shows them, and the generated parts of documents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

from narkit.data.execution import random_run
from narkit.errors import UnknownNameError
from narkit.files import write_whole
from narkit.models.serialization import ModelFileError, load
from narkit.report import documents, figures
from narkit.report.documents import readme_part, results_part, with_part
from narkit.report.grid import Grid, ResultsError
from narkit.report.learning import learning_part
from narkit.report.page import page
from narkit.report.provenance import origin, remarks
from narkit.report.rendering import FORMATS, document
from narkit.report.reproduction import reproduction_part
from narkit.report.tables import all_tables
from narkit.report.training_pictures import draw_attention
from narkit.spec import ALGORITHMS

# The instance that the attention is drawn on: size, seed and density.
INSTANCE = (8, 1, 0.6)
PREFERRED = "bfs"

README, RESULTS_PAGE, REPRODUCTION, LEARNING = "--readme", "--results-page", "--reproduction", "--learning"
PARTS: Mapping[str, Callable[[Grid], str]] = {
    README: readme_part,
    RESULTS_PAGE: results_part,
    REPRODUCTION: reproduction_part,
    LEARNING: learning_part,
}
"""The writer of each document's generated part, by the option that names the document."""


def write(grid: Grid, out: Path | None, files: Mapping[str, Path], validation: str = "ood") -> list[Path]:
    """Writes what was asked for, a report if nothing was; returns the files. `files` are documents by their option."""
    if out is None and not files:
        out = Path("report")
    for option, file in files.items():
        updated(grid, option, file)  # refuses a document without a place for its part before anything is written
    written = write_report(grid, out, validation) if out is not None else []
    for option, file in files.items():
        written += write_part(grid, option, file)
    return written


def summary(grid: Grid, written: list[Path]) -> list[str]:
    """Says what a report was made from, what is special about it, and where it is."""
    folders = Counter(path.parent for path in written)
    places = [f"{folder}: {count} file{'s' if count > 1 else ''}" for folder, count in folders.items()]
    return [origin(grid), *remarks(grid), f"written in {'; '.join(places)}"]


def write_report(grid: Grid, out: Path, validation: str = "ood") -> list[Path]:
    """Writes tables, figures and the page that shows them all; returns what was written."""
    check_validation(grid, validation)
    if out.exists() and not out.is_dir():
        raise ResultsError(f"{out}: expected a folder to write the report to, got a file")
    out.mkdir(parents=True, exist_ok=True)
    tables, drawn = all_tables(grid), _write_figures(grid, out, validation)
    files = [path for path in drawn.values() if isinstance(path, Path)]
    texts = {f"{table.name}{suffix}": render(table) for table in tables for suffix, render in FORMATS.items()}
    texts["report.tex"] = document([table.name for table in tables if table.headings], [path.stem for path in files])
    texts["index.html"] = page(grid, tables, drawn)
    texts["notes.md"] = "\n".join([origin(grid), "", *(f"- {line}" for line in remarks(grid))]) + "\n"
    for name, content in texts.items():
        write_whole(out / name, content)
    pictures = [path.with_suffix(suffix) for path in files for suffix in (".png", ".svg")]
    return [*(out / name for name in texts), *pictures]


def check_validation(grid: Grid, validation: str) -> None:
    """Raises if no run has such a validation set."""
    known = {each.name for record in grid.cells.values() for each in record.config.validations} or {"id", "ood"}
    if validation not in known:
        raise UnknownNameError("validation set", validation, known)


def _write_figures(grid: Grid, out: Path, validation: str) -> dict[str, Path | str]:
    """Draws the figures and returns by title the path of the SVG, or why there is none."""
    figures.save(figures.category_chart(grid), out / "categories", grid.digest)
    figures.save(figures.learning_curves(grid, validation), out / "learning_curves", grid.digest)
    return {
        "Categories": out / "categories.svg",
        "Learning curves": out / "learning_curves.svg",
        "Triplet Edge Attention": _write_attention(grid, out / "attention"),
    }


def _write_attention(grid: Grid, path: Path) -> Path | str:
    """Draws the attention of a trained TEAM on a small graph, breadth-first search's if its weights are there."""
    cells = [(system, name) for system in grid.trained if system.processor == "team" for name in grid.records(system)]
    graphs = [(grid.weights(*cell), cell[1]) for cell in cells if ALGORITHMS[cell[1]].category == "graphs"]
    for weights, name in sorted(graphs, key=lambda pair: pair[1] != PREFERRED):
        if not weights.is_file():
            continue
        try:
            reasoner = load(weights)
        except ModelFileError as error:
            return f"not drawn: {error}"
        with figures.style():
            figure = draw_attention(reasoner, random_run(name, *INSTANCE))
        figures.save(figure, path, grid.digest)
        return path.with_suffix(".svg")
    for suffix in (".png", ".svg"):
        path.with_suffix(suffix).unlink(missing_ok=True)  # of an earlier report
    return "not drawn: no weights of TEAM on a graph algorithm beside the records"


def write_part(grid: Grid, option: str, file: Path) -> list[Path]:
    """Brings the generated part of a document up to date, and the figures that it shows."""
    write_whole(file, updated(grid, option, file))
    if option != RESULTS_PAGE or not grid.cells:
        return [file]
    pictures = _pictures(file)
    pictures[0].parent.mkdir(parents=True, exist_ok=True)
    for path, figure in zip(pictures, (figures.category_chart(grid), figures.learning_curves(grid)), strict=True):
        figures.save(figure, path, grid.digest, (".png",))
    return [file, *pictures]


def _pictures(file: Path) -> list[Path]:
    """Returns the figures that the page of results shows: categories and learning curves."""
    return [file.parent / documents.FIGURES / f"{name}.png" for name in (documents.CATEGORIES, documents.CURVES)]


def updated(grid: Grid, option: str, file: Path) -> str:
    """Returns the document with its part as it follows from the records."""
    return with_part(file.read_text(), PARTS[option](grid), _command(grid, option, file))


def _command(grid: Grid, option: str, file: Path) -> str:
    """Returns the command that writes a part; names only, so that it is the same wherever the folders lie."""
    results = grid.folder.resolve()
    # Runs for a document of their own lie in a folder of their own within the results.
    above = f"{results.parent.name}/" if option == LEARNING else ""
    folder = "" if option == README else "docs/"
    return f"narkit report {above}{results.name}/ {option} {folder}{file.name}"


def outdated(grid: Grid, files: Mapping[str, Path]) -> list[str]:
    """Lists what does not follow from the records, one line each; empty if all is up to date."""
    problems = []
    for option, file in files.items():
        if updated(grid, option, file) != file.read_text():
            problems.append(f"{file}: its generated part does not follow from {grid.folder}")
        if option == RESULTS_PAGE and grid.cells:
            for path in _pictures(file):
                if not path.is_file() or figures.digest_of(path) != grid.digest:
                    problems.append(f"{path}: was not drawn from the records in {grid.folder}")
    return problems
