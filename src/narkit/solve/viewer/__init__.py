"""The viewer: a page that shows a network's run of an algorithm beside the textbook's, step by step."""

from __future__ import annotations

import html
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from narkit import files
from narkit.solve.viewer.document import render
from narkit.solve.viewer.run import ViewedRun, run_of, run_of_answer

__all__ = ["View", "ViewedRun", "page", "run_of", "run_of_answer"]

NOTEBOOK_HEIGHT = 860  # pixels


def page(answer: Any) -> str:
    """Returns one self-contained HTML file that shows an answer of `narkit.solve`, or a `ViewedRun`, step by step."""
    return render(answer if isinstance(answer, ViewedRun) else run_of_answer(answer))


@dataclass(frozen=True, repr=False)
class View:
    """A page to look at: notebooks show it as it is, `save` writes it to a file."""

    html: str

    def save(self, path: str | os.PathLike) -> Path:
        """Writes the page and returns its path."""
        target = Path(path)
        files.write_with_folder(target, self.html)
        return target

    def _repr_html_(self) -> str:
        """Returns an inline frame, which keeps the page's styles and scripts apart from the notebook's."""
        source = html.escape(self.html, quote=True)
        return (
            f'<iframe srcdoc="{source}" width="100%" height="{NOTEBOOK_HEIGHT}" style="border:0" '
            f'sandbox="allow-scripts" title="A run, step by step"></iframe>'
        )

    def __repr__(self) -> str:
        return f"<page of {len(self.html) / 1e3:.0f} kB; .save('run.html') writes it>"
