"""The processor in the documentation is executed as it stands."""

import re
from pathlib import Path

import pytest

import narkit

PAGE = (Path(__file__).parents[2] / "docs" / "models.md").read_text()


def test_the_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    ((name, code),) = re.findall(r"```python\n# (\w+\.py)\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / name).write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    try:
        __import__(name.removesuffix(".py"))
    finally:
        narkit.PROCESSORS.pop("mean_messages", None)
    assert "'score'" in capsys.readouterr().out
