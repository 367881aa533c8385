"""Compiles a textbook function to loops over whole batches.

For each algorithm two loops are generated and compiled, when first needed: `run`, over given instances, and
`sample`, which also draws the instances. Both are a few lines of Python source, because a named tuple of a
dozen differently typed arrays can be assembled in no other way that Numba compiles well.

Compiled code is cached on disk by Numba: the loops, and what they share, the algorithm and its sampler. Numba notices
changes only in the file of a cached function, not in what it calls, so all of them get names with a digest of every
source that goes into them.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import keyword
import threading
from collections import namedtuple
from collections.abc import Callable
from pathlib import Path
from types import FunctionType
from typing import Literal

from numba import njit

from narkit.spec import Algorithm, Kind, Location, Probe, Stage, first_mask_name

SHARED_SOURCES = ("compilation.py", "shared_probes.py", "instances.py", "positions.py", "randomness.py", "recording.py")


def compiled(function: Callable) -> Callable:
    """Compiles with `numba.njit` without the GIL, cached on disk where some cache directory can be written."""
    try:
        return njit(function, nogil=True, cache=True)
    except RuntimeError:  # Numba's word for: neither beside the source nor in the user's cache can be written
        return njit(function, nogil=True)


def run_loop(algorithm: Algorithm) -> Callable:
    """Returns a compiled `(arguments..., probe arrays..., lengths)` that runs the algorithm on a batch of instances."""
    with _one_at_a_time:
        return _loop(algorithm, "run")


def sample_loop(algorithm: Algorithm) -> Callable:
    """Returns the compiled `(seeds, samples_per_seed, step, size, distribution, probe arrays..., lengths)`, which draws
    instances, runs the algorithm on them, and writes what networks read: random positions, and permutations as pointers
    and a mask.

    The samples of the first seed come first, then those of the second, and so on."""
    with _one_at_a_time:
        return _loop(algorithm, "sample")


_one_at_a_time = threading.Lock()  # threads that need the same loop at once must not each compile it


@functools.cache
def _loop(algorithm: Algorithm, purpose: Literal["run", "sample"]) -> Callable:
    return _compile(algorithm, purpose, _run_source(algorithm) if purpose == "run" else _sample_source(algorithm))


@functools.cache
def permutations(algorithm: Algorithm) -> tuple[str, ...]:
    """Returns the probes that transforming turns into a permutation pointer and a first-node mask."""
    return tuple(name for name, probe in algorithm.spec.items() if probe.kind is Kind.SHOULD_BE_PERMUTATION)


def _field(name: str) -> str:
    """Returns a probe's name as an attribute: `return` -> `return_`."""
    return f"{name}_" if keyword.iskeyword(name) else name


def _of_sample(name: str, probe: Probe) -> str:
    """Returns the expression for sample `b` of a probe's array: always a writable view."""
    timed = probe.stage is Stage.HINT and not probe.constant
    if probe.location is Location.GRAPH and probe.kind is not Kind.CATEGORICAL and not timed:
        return f"p_{name}[b : b + 1]"
    return f"p_{name}[b]"


def _probes(algorithm: Algorithm) -> str:
    return ", ".join(["clock", *(_of_sample(name, probe) for name, probe in algorithm.spec.items())])


def _parameters(algorithm: Algorithm) -> str:
    """Returns the parameters of both loops: all probes' arrays in the order of the spec, and what goes with them."""
    return ", ".join([*(f"p_{name}" for name in algorithm.spec), "capacity", "lengths"])


def _run_source(algorithm: Algorithm) -> str:
    arguments = ", ".join(f"a_{name}" for name in algorithm.arguments)
    per_sample = ", ".join(f"a_{name}[b]" for name in algorithm.arguments)
    return f"""
def loop({arguments}, {_parameters(algorithm)}):
    clock = np.array([0, capacity])
    for b in range(len(lengths)):
        clock[0] = 0
        function({per_sample}, Probes({_probes(algorithm)}))
        lengths[b] = clock[0]
"""


def _sample_source(algorithm: Algorithm) -> str:
    masks = "".join(f", p_{first_mask_name(name)}" for name in permutations(algorithm))
    close = "".join(
        f"        positions.close_to_cycle(p_{name}[b], p_{first_mask_name(name)}[b])\n"
        for name in permutations(algorithm)
    )
    split = "p_string[b]" if "string" in algorithm.spec else "positions.ONE_STRING"
    return f"""
def loop(seeds, samples_per_seed, step, size, distribution, {_parameters(algorithm)}{masks}):
    clock = np.array([0, capacity])
    rng = randomness.new_generator()
    for b in range(len(lengths)):
        seed, sample = seeds[b // samples_per_seed], b % samples_per_seed
        clock[0] = 0
        randomness.restart(rng, seed, step, sample, positions.INSTANCE)
        function(*sampler(rng, size, distribution), Probes({_probes(algorithm)}))
        lengths[b] = clock[0]
        randomness.restart(rng, seed, step, sample, positions.POSITIONS)
        positions.randomise_positions(rng, p_pos[b], {split})
{close}"""


def _compile(algorithm: Algorithm, purpose: str, source: str) -> Callable:
    import numpy as np

    from narkit.algorithms import positions, randomness

    function, probes = _function_and_probes(algorithm)
    namespace = {
        "np": np,
        "positions": positions,
        "randomness": randomness,
        "function": function,
        "sampler": _sampler(algorithm.sampler),
        "Probes": probes,
    }
    # Under this file's name Numba finds a place for the cache; the lines of the source are not this file's.
    exec(compile(source, __file__, "exec"), namespace)
    namespace["loop"].__module__ = __name__
    return _kept(namespace["loop"], f"{purpose}_{algorithm.name}", source, algorithm.function, algorithm.sampler)


@functools.cache
def _function_and_probes(algorithm: Algorithm) -> tuple[Callable, type]:
    """Returns what both loops share, so that an algorithm is compiled once, whichever processes need which."""
    fields = ["clock", *(_field(name) for name in algorithm.spec)]
    probes = namedtuple(f"Probes_{algorithm.name}", fields, module=__name__)
    globals()[probes.__name__] = probes  # where another process finds the type under which Numba keeps the function
    function = _kept(_copy(algorithm.function), f"function_{algorithm.name}", " ".join(fields), algorithm.function)
    return function, probes


@functools.cache
def _sampler(sampler: Callable) -> Callable:
    return _kept(_copy(sampler), f"sampler_{sampler.__name__}", "", sampler)


def _copy(function: Callable) -> Callable:
    """Returns the same function under a name of its own, so that the author's keeps its name."""
    return FunctionType(function.__code__, function.__globals__, None, function.__defaults__, function.__closure__)


def _kept(function: Callable, name: str, source: str, *parts: Callable) -> Callable:
    """Compiles what depends on this source and on the files of these functions, and keeps it under a name that says so.

    Functions typed into a shell cannot be told apart, so what depends on them is not kept.
    """
    files = {Path(inspect.getfile(part)) for part in parts}
    if not all(file.is_file() for file in files):
        return njit(function, nogil=True)
    hasher = hashlib.sha256(source.encode())
    for file in sorted(files | {Path(__file__).parent / name for name in SHARED_SOURCES}):
        hasher.update(file.read_bytes())
    function.__qualname__ = f"{name}_{hasher.hexdigest()[:12]}"
    return compiled(function)
