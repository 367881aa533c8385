"""What the comparisons with dm-clrs's golden files share."""

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

GOLDEN = Path(__file__).parents[1] / "golden"
DM_CLRS_VERSION = "2.0.3"


@pytest.fixture(scope="session")
def golden_directory() -> Path:
    return GOLDEN


@pytest.fixture(scope="session")
def check_maker() -> Callable[[Mapping[str, str], str], None]:
    """Rejects a golden file that another version of dm-clrs, or another state of its script, has made."""

    def check(made_by: Mapping[str, str], script: str) -> None:
        digest = hashlib.sha256((GOLDEN / script).read_bytes()).hexdigest()
        expected = {"dm-clrs": DM_CLRS_VERSION, "script": digest}
        assert made_by == expected, f"made by {made_by}, expected {expected}; run tests/golden/{script} again"

    return check


@pytest.fixture(scope="session")
def float32_bytes() -> Callable[[np.ndarray], bytes]:
    """What the golden digests are taken of."""
    return lambda values: np.ascontiguousarray(values.astype(np.float32) + np.float32(0.0)).tobytes()
