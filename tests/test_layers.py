"""Packages import only what lies below them; the contracts are in pyproject.toml, and `make lint` runs them too."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_layers_point_one_way() -> None:
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command as run; run()", "--no-cache"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "0 broken" in result.stdout
