"""Untrained networks of every algorithm in the form in which published weights lie, narrow enough to be quick."""

from collections.abc import Callable
from pathlib import Path

import jax
import pytest

import narkit


@pytest.fixture(scope="session")
def make_weights(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """A function that makes a folder of weights, SYSTEM/ALGORITHM.safetensors, for some algorithms."""

    def make(*algorithms: str, system: str = "team", hidden_size: int = 8) -> Path:
        folder = tmp_path_factory.mktemp("weights")
        (folder / system).mkdir()
        for name in algorithms:
            reasoner = narkit.Reasoner(name, system, hidden_size=hidden_size, key=jax.random.key(0))
            narkit.save(reasoner, folder / system / f"{name}.safetensors")
        return folder

    return make
