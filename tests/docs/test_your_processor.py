"""The processor in docs/guides/your_processor.md is executed as it stands, and a network with it runs."""

import re
from pathlib import Path

import jax
import pytest

import narkit

PAGE = (Path(__file__).parents[2] / "docs" / "guides" / "your_processor.md").read_text()


def test_the_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ((name, code),) = re.findall(r"```python\n# (\w+\.py)\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / name).write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    try:
        __import__(name.removesuffix(".py"))
        reasoner = narkit.Reasoner("bfs", processor="mean_messages", hidden_size=16, key=jax.random.key(0))
    finally:
        narkit.PROCESSORS.pop("mean_messages", None)
    batch = narkit.sample("bfs", size=8, batch_size=4, seed=0)
    assert "score" in narkit.evaluate("bfs", narkit.predict(reasoner, batch), batch)
