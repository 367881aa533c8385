"""What is compiled once is kept, under names that change with the sources."""

import shutil
import types
from typing import Any

import pytest
from numba.core import config

import narkit
from narkit.algorithms import compilation
from narkit.data.execution import random_run


@pytest.fixture
def new_process(monkeypatch, tmp_path):
    """Lets go of what this process has compiled, and keeps what follows in a folder of its own."""

    def forget():
        for cached in (compilation._loop, compilation._function_and_probes, compilation._sampler):
            cached.cache_clear()

    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))
    forget()
    yield forget
    forget()


def hits(function):
    return sum(function.stats.cache_hits.values())


def test_an_algorithm_is_compiled_once_for_both_loops(new_process):
    entry = narkit.ALGORITHMS["minimum"]
    narkit.sample("minimum", size=4, batch_size=1)
    assert hits(compilation._function_and_probes(entry)[0]) == 0
    new_process()
    random_run("minimum", size=4, seed=0, density=0.5)
    assert hits(compilation._function_and_probes(entry)[0]) == 1


def test_names_of_what_is_kept_change_with_the_sources(tmp_path):
    names = set()
    for source in ("def function(a): return a", "def function(a): return a + 1"):
        file = tmp_path / "mine.py"
        file.write_text(source)
        module = types.ModuleType("mine")
        exec(compile(source, file, "exec"), module.__dict__)
        kept: Any = compilation._kept(module.function, "mine", "", module.function)
        names.add(kept.py_func.__qualname__)
    shutil.rmtree(tmp_path)
    typed: Any = compilation._kept(module.function, "mine", "", module.function)
    assert len(names) == 2 and typed(1) == 2
    assert typed.stats.cache_path is None
