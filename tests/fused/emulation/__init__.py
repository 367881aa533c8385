"""Fused kernels on a CPU: their source is compiled by g++ and run thread by thread."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import mmap
import re
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from narkit.fused import availability, launch

from ...compiled import FOLDER, locked

COMPILER = shutil.which("g++")
HEADER = Path(__file__).parent / "emulate.h"
# Most kernels run briefly: with -O1 three of the longest files took 65 s of CPU time, with this 57. A hardened library
# refuses to jump from one stack to another.
OPTIONS = ("-Og", "-U_FORTIFY_SOURCE", "-w", "-std=c++17", "-fPIC")
# The usual linker takes a quarter of the time of a small library, this one a tenth. Not every machine has it.
LINKER = ("-fuse-ld=gold",) if shutil.which("ld.gold") else ()
LIBC, PAGE = ctypes.CDLL(None, use_errno=True), mmap.PAGESIZE

one_at_a_time = threading.Lock()  # XLA may run kernels side by side that do not wait for each other

needs_compiler = pytest.mark.skipif(COMPILER is None, reason="g++ was not found; it compiles the kernels for the CPU")


@contextlib.contextmanager
def emulated() -> Iterator[None]:
    """Networks use fused kernels for a while, and JAX runs them here."""
    launch.emulator = _run
    try:
        with availability.use("fused"):
            yield
    finally:
        launch.emulator = None


def _run(kernel: launch.Kernel, rows: launch.Rows | None, seeds: int, outputs, *operands) -> list[np.ndarray]:
    arrays = [_guarded(operand) for operand in operands]
    results = [_guarded(np.full(output.shape, -1, output.dtype)) for output in outputs]
    if rows is not None:
        for i, stack in zip(rows.written, arrays[len(arrays) - len(rows.written) :], strict=True):
            results[i] = _guarded(stack)
    pointers = (ctypes.c_void_p * (len(arrays) + len(results)))(*map(_address, [*arrays, *results]))
    grid = (ctypes.c_int * 3)(*kernel.grid, seeds)
    library = _library(kernel.source, kernel.macros) if rows is None else _library_on_rows(kernel, rows)
    with one_at_a_time:
        getattr(library, f"run_{kernel.name}")(grid, kernel.threads, kernel.shared_bytes, pointers)
    return [result.copy() for result in results]


def _guarded(array: np.ndarray) -> np.ndarray:
    """A copy between pages that nobody may touch: a kernel that reads or writes behind it ends the process.

    It ends where the second such page begins, but for what a multiple of 16 bytes leaves.
    """
    size = -(-array.nbytes // 16) * 16
    length = (-(-size // PAGE) + 2) * PAGE
    pages = np.frombuffer(mmap.mmap(-1, length), np.uint8)
    for guard in (pages[:PAGE], pages[-PAGE:]):
        assert LIBC.mprotect(ctypes.c_void_p(_address(guard)), PAGE, 0) == 0
    copy = pages[-PAGE - size :][: array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def _address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]  # `array.ctypes` would keep it until garbage is collected


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
    return ctypes.CDLL(str(_compiled("\n".join([kernels, *calls]))))


def _compiled(code: str) -> Path:
    """A library that is kept for all tests, under the digest of its source."""
    name = hashlib.sha256((HEADER.read_text() + code).encode()).hexdigest()[:24]
    library = FOLDER / "kernels" / f"{name}.so"
    if library.exists():
        return library
    header = _compiled_header()
    with locked(f"kernels-{name[:2]}"), tempfile.TemporaryDirectory(dir=library.parent) as temporary:
        if library.exists():  # another process was quicker
            return library
        source, built = Path(temporary) / "kernels.cpp", Path(temporary) / "kernels.so"
        source.write_text(code)
        command = [str(COMPILER), *OPTIONS, *LINKER, "-shared", "-include", str(header), "-o", str(built), str(source)]
        subprocess.run(command, check=True)
        built.rename(library)
    return library


@functools.cache
def _compiled_header() -> Path:
    """The header that all kernels include, compiled once: it would take a third of the time of many of them."""
    text = HEADER.read_text()
    folder = FOLDER / "kernels" / hashlib.sha256(" ".join([text, *OPTIONS]).encode()).hexdigest()[:24]
    with locked("kernels"):
        if not folder.exists():
            folder.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=folder.parent) as temporary:
                header = Path(temporary) / "made" / HEADER.name
                header.parent.mkdir()
                header.write_text(text)
                compiled = header.with_name(f"{header.name}.gch")
                command = [str(COMPILER), *OPTIONS, "-x", "c++-header", "-o", str(compiled), str(header)]
                subprocess.run(command, check=True)
                header.parent.rename(folder)
    return folder / HEADER.name
