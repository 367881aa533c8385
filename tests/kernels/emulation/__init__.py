"""Fused kernels on a CPU: their source is compiled by g++ and run thread by thread."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from narkit.kernels.fused import launch

COMPILER = shutil.which("g++")

one_at_a_time = threading.Lock()  # XLA may run kernels side by side that do not wait for each other

needs_compiler = pytest.mark.skipif(COMPILER is None, reason="g++ was not found; it compiles the kernels for the CPU")


@contextlib.contextmanager
def emulated() -> Iterator[None]:
    """Networks use fused kernels for a while, and JAX runs them here."""
    launch.emulator = _run
    try:
        with launch.use("fused"):
            yield
    finally:
        launch.emulator = None


def _run(kernel: launch.Kernel, rows: launch.Rows | None, seeds: int, outputs, *operands) -> list[np.ndarray]:
    arrays = [np.ascontiguousarray(operand) for operand in operands]
    results = [np.full(output.shape, -1, output.dtype) for output in outputs]
    if rows is not None:
        for i, stack in zip(rows.written, arrays[len(arrays) - len(rows.written) :], strict=True):
            results[i] = stack.copy()
    pointers = (ctypes.c_void_p * (len(arrays) + len(results)))(*(a.ctypes.data for a in [*arrays, *results]))
    grid = (ctypes.c_int * 3)(*kernel.grid, seeds)
    library = _library(kernel.source, kernel.macros) if rows is None else _library_on_rows(kernel, rows)
    with one_at_a_time:
        getattr(library, f"run_{kernel.name}")(grid, kernel.threads, kernel.shared_bytes, pointers)
    return results


@functools.cache
def _library_on_rows(kernel: launch.Kernel, rows: launch.Rows) -> ctypes.CDLL:
    """One kernel that reads and writes rows of stacks over time."""
    return _link(kernel.code(rows), [kernel.name])


@functools.cache
def _library(source: str, macros: tuple[tuple[str, int | float], ...]) -> ctypes.CDLL:
    """All kernels of a file for certain sizes; compiled together, which takes less time than one by one."""
    names = re.findall(r"defined\(BUILD_(\w+)\)", (Path(launch.__file__).parent / source).read_text())
    chosen = [f"#define BUILD_{name}" for name in names[1:]]
    kernels = launch.Kernel(source, names[0], macros, grid=(1, 1), shared_bytes=0).code()
    return _link("\n".join([*chosen, kernels]), names)


def _link(kernels: str, names: list[str]) -> ctypes.CDLL:
    calls = [
        f'extern "C" void run_{name}(int* grid, int threads, int shared, void** arguments) '
        f"{{ launch({name}, grid, threads, shared, arguments); }}"
        for name in names
    ]
    code = "\n".join([(Path(__file__).parent / "emulate.h").read_text(), kernels, *calls])
    return ctypes.CDLL(str(_compiled(code)))


def _compiled(code: str) -> Path:
    """A library that is kept in the folder for temporary files, under the digest of its source."""
    folder = Path(tempfile.gettempdir()) / f"narkit-emulated-kernels-{os.getuid()}"
    folder.mkdir(exist_ok=True)
    library = folder / f"{hashlib.sha256(code.encode()).hexdigest()[:24]}.so"
    if not library.exists():
        with tempfile.TemporaryDirectory(dir=folder) as temporary:
            source, built = Path(temporary) / "kernels.cpp", Path(temporary) / "kernels.so"
            source.write_text(code)
            # A hardened library refuses to jump from one stack to another.
            options = ["-O1", "-U_FORTIFY_SOURCE", "-w", "-std=c++17", "-shared", "-fPIC"]
            subprocess.run([str(COMPILER), *options, "-o", str(built), str(source)], check=True)
            built.rename(library)
    return library
