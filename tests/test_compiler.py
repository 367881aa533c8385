"""Options for XLA: those that this jaxlib knows are given to every program, others are left out."""

import jax
import pytest

import narkit
from narkit import compiler
from narkit.training.programs import Programs


@pytest.mark.parametrize("backend", compiler.OPTIONS)
def test_options_are_those_of_the_backend_that_are_known(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    wanted = compiler.OPTIONS[backend]
    monkeypatch.setitem(compiler.OPTIONS, backend, wanted | {"xla_no_such_option": "1"})
    assert compiler.compiler_options.__wrapped__() == wanted
    monkeypatch.setitem(compiler.OPTIONS, backend, {"xla_no_such_option": "1"})
    assert compiler.compiler_options.__wrapped__() is None


def test_other_backends_have_no_options(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jax, "default_backend", lambda: "tpu")
    assert compiler.compiler_options.__wrapped__() is None


def test_values_that_are_refused_count_as_unknown() -> None:
    assert compiler.is_known("xla_cpu_prefer_vector_width", "256")
    assert not compiler.is_known("xla_cpu_prefer_vector_width", "wide")


def test_programs_are_compiled_with_them(monkeypatch: pytest.MonkeyPatch) -> None:
    expected, given, jit = compiler.compiler_options(), [], jax.jit

    def noting(function, **options):
        given.append(options.get("compiler_options"))
        return jit(function, **options)

    monkeypatch.setattr(jax, "jit", noting)
    Programs(narkit.TrainConfig(("bfs",), "mpnn", hidden_size=8, seeds=(0,)))
    assert [options for options in given if options is not None] == [expected] * 2
