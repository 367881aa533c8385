"""What the tests of training share: tiny runs, and compiled programs that are kept between runs and processes."""

from collections.abc import Callable, Iterator
from pathlib import Path
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


@pytest.fixture(scope="session", autouse=True)
def program_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Compiled programs go to a folder of the tests, which processes started by them use too."""
    folder = tmp_path_factory.mktemp("programs")
    names = ("jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs")
    before = {name: getattr(jax.config, name) for name in names}
    jax.config.update(names[0], str(folder))
    jax.config.update(names[1], 0.0)
    yield folder
    for name, value in before.items():
        jax.config.update(name, value)
