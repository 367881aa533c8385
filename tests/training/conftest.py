"""What the tests of training share: tiny runs, and compiled programs that are kept between runs and processes."""

from collections.abc import Callable, Iterator
from typing import Any

import jax
import pytest

import narkit
from narkit.training.config import Validation

TINY: dict[str, Any] = {
    "algorithms": ("bfs",),
    "processor": "mpnn",
    "hidden_size": 8,
    "seeds": (0, 1),
    "steps": 10,
    "batch_size": 4,
    "sizes": (5,),
    "validate_every": 4,
    "validations": (Validation("id", 5, 4),),
    "test": False,
}


@pytest.fixture(scope="session")
def tiny() -> Callable[..., narkit.TrainConfig]:
    """Makes the configuration of a run of seconds; options may differ."""
    return lambda **options: narkit.TrainConfig(**{**TINY, **options})


@pytest.fixture
def float64() -> Iterator[None]:
    """For all threads; the context manager of JAX holds for one."""
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", False)
