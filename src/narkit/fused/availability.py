"""Whether kernels are launched here: on a GPU that can, unless someone asks for the plain formulas."""

from __future__ import annotations

import contextlib
import enum
import functools
import os
import warnings
from collections.abc import Iterator

import jax

from narkit.errors import UnknownNameError
from narkit.fused import launch, nvrtc, probe

ENVIRONMENT = "NARKIT_KERNELS"
OLDEST_GPU = 80  # compute capability times ten: bfloat16 on the matrix units


class Mode(enum.StrEnum):
    """How the parts that have a fused kernel run."""

    FUSED = "fused"
    PLAIN = "plain"


_forced: Mode | None = None


def mode() -> Mode:
    """Returns how these parts run: as kernels on a GPU that can, else by the plain formulas.

    The environment can say otherwise, NARKIT_KERNELS=plain, to compare runs.
    """
    return Mode.FUSED if refusal() is None else Mode.PLAIN


def refusal() -> str | None:
    """Returns why no kernels are launched here, or None if they are."""
    asked = _forced or os.environ.get(ENVIRONMENT)
    if asked and _mode_of(asked) is Mode.PLAIN:
        return f"the plain formulas were asked for ({ENVIRONMENT}=plain, or in code)"
    return None if asked else _refusal_of_machine()


def _mode_of(name: str) -> Mode:
    try:
        return Mode(name)
    except ValueError:
        raise UnknownNameError("mode", name, [mode.value for mode in Mode]) from None


@contextlib.contextmanager
def use(forced: Mode | str | None) -> Iterator[None]:
    """Decides for a while how these parts run, for tests and comparisons. Programs traced before stay as they are."""
    global _forced
    before = _forced
    _forced = None if forced is None else _mode_of(forced)
    try:
        yield
    finally:
        _forced = before


@functools.cache
def _refusal_of_machine() -> str | None:
    """Returns why this machine cannot run kernels; found out once, and warned about if it has a GPU."""
    if jax.default_backend() != "gpu":
        return "JAX runs on no NVIDIA GPU here"
    if not nvrtc.available():
        reason = "NVRTC, which comes with JAX's CUDA packages, was not found"
    elif launch.compute_capability() < OLDEST_GPU:
        reason = f"this GPU has compute capability {launch.compute_capability() / 10}, they need {OLDEST_GPU / 10}"
    else:
        reason = probe.run()
    if reason is not None:
        warnings.warn(f"networks run without fused kernels, several times slower: {reason}", stacklevel=2)
    return reason
