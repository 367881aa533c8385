"""Fused kernels on a CPU: their source is compiled by g++ and run thread by thread."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from narkit.kernels.fused import launch

COMPILER = shutil.which("g++")


@contextlib.contextmanager
def emulated() -> Iterator[None]:
    """Networks use fused kernels for a while, and JAX runs them here."""
    launch.emulator = _run
    try:
        with launch.use("fused"):
            yield
    finally:
        launch.emulator = None


def _run(kernel: launch.Kernel, seeds: int, outputs, *operands) -> list[np.ndarray]:
    arrays = [np.ascontiguousarray(operand) for operand in operands]
    results = [np.full(output.shape, -1, output.dtype) for output in outputs]
    pointers = (ctypes.c_void_p * (len(arrays) + len(results)))(*(a.ctypes.data for a in [*arrays, *results]))
    grid = (ctypes.c_int * 3)(*kernel.grid, seeds)
    _library(kernel).run(grid, kernel.shared_bytes, pointers)
    return results


@functools.cache
def _library(kernel: launch.Kernel) -> ctypes.CDLL:
    call = f"launch({kernel.name}, grid, shared, arguments);"
    call = f'extern "C" void run(int* grid, int shared, void** arguments) {{ {call} }}'
    header = (Path(__file__).parent / "emulate.h").read_text()
    source = "\n".join([header, kernel.code(), call])
    folder = Path(tempfile.gettempdir()) / "narkit-emulated-kernels"
    folder.mkdir(exist_ok=True)
    library = folder / f"{hashlib.sha256(source.encode()).hexdigest()[:24]}.so"
    if not library.exists():
        with tempfile.TemporaryDirectory(dir=folder) as temporary:
            code, built = Path(temporary) / "kernel.cpp", Path(temporary) / "kernel.so"
            code.write_text(source)
            command = [COMPILER, "-O1", "-w", "-std=c++17", "-shared", "-fPIC", "-o", str(built), str(code)]
            subprocess.run(command, check=True)
            built.rename(library)
    return ctypes.CDLL(str(library))
