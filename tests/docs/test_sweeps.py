"""What docs/sweeps.md says of columns and files is so."""

import re
from pathlib import Path

import pytest

from narkit.sweeps.cells import RUNNING
from narkit.sweeps.checks import SET_ASIDE
from narkit.sweeps.systems import sharing

TEXT = (Path(__file__).parents[2] / "docs" / "sweeps.md").read_text()


@pytest.mark.parametrize("system", ["team", "triplet_gmpnn"])
def test_columns_are_those_of_the_code(system: str) -> None:
    rules = [column.rule for column in sharing(system)]
    assert re.findall(rf"^\| [^|]+ \| `{system}` \| `(\w+)`", TEXT, re.MULTILINE) == rules


def test_folders_are_named() -> None:
    assert f"`{RUNNING}/`" in TEXT
    assert f"`{SET_ASIDE}/`" in TEXT
