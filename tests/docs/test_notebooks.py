"""The notebooks in examples/: kept without outputs, and executed from the first cell to the last (marker `slow`)."""

import json
import os
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))


def cells(path: Path) -> list[dict]:
    return json.loads(path.read_text())["cells"]


def test_there_are_two() -> None:
    assert [path.name for path in NOTEBOOKS] == ["graph_to_answer.ipynb", "own_processor.ipynb"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_they_are_kept_without_outputs_and_explained(path: Path) -> None:
    code = [cell for cell in cells(path) if cell["cell_type"] == "code"]
    assert code and all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)
    assert cells(path)[0]["cell_type"] == "markdown" and cells(path)[0]["source"][0].startswith("# ")
    for cell in code:
        compile("".join(cell["source"]), path.name, "exec")


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # Jupyter's own
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_they_run(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    monkeypatch.delenv("MPLBACKEND", raising=False)  # so that figures are shown in the notebook
    (tmp_path / "results").symlink_to(ROOT / "results")
    notebook = nbformat.reads(path.read_text().replace("STEPS, WIDTH = 100, 16", "STEPS, WIDTH = 2, 4"), 4)
    nbclient.NotebookClient(
        notebook, timeout=900, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    ).execute(env=dict(os.environ))
    shown = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    kinds = {kind for output in shown for kind in output.get("data", {})}
    assert kinds & {"text/html", "image/png"}  # there is something to look at
