"""`import narkit` is quick and pulls in nothing heavy; so does the command line before a command runs."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src"
HEAVY = ("jax", "numba", "equinox", "optax", "matplotlib", "scipy", "tensorflow")

CHECK = """
import sys, time
start = time.perf_counter()
import {module}
seconds = time.perf_counter() - start
print(seconds, *sorted(set({heavy!r}) & set(sys.modules)))
"""


@pytest.mark.parametrize("module", ["narkit", "narkit.cli", "narkit.spec"])
def test_import_is_light(module: str) -> None:
    command = [sys.executable, "-W", "error", "-c", CHECK.format(module=module, heavy=HEAVY)]
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stderr
    seconds, *heavy = result.stdout.split()
    assert heavy == []
    assert float(seconds) < 5  # it takes a tenth of a second; the bound only catches disasters on busy machines
