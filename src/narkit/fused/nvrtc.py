"""NVIDIA's run-time compiler, which comes with JAX's CUDA packages: CUDA C++ to PTX, which drivers turn into code."""

from __future__ import annotations

import ctypes
import ctypes.util
import functools
import importlib.util
import re
from pathlib import Path


class CompilationError(RuntimeError):
    """The compiler refused a kernel."""


def available() -> bool:
    """Returns whether the compiler can be loaded."""
    return _library() is not None


@functools.cache
def compile_to_ptx(code: str, compute_capability: int) -> str:
    """Returns the PTX of a source for GPUs of a compute capability (9.0 is given as 90) and later ones."""
    library = _library()
    if library is None:
        raise CompilationError("NVRTC was not found; install JAX with its CUDA packages, `pip install narkit[cuda]`")
    program = ctypes.c_void_p()
    _check(library.nvrtcCreateProgram(ctypes.byref(program), code.encode(), b"kernel.cu", 0, None, None), library)
    try:
        options = [f"--gpu-architecture=compute_{compute_capability}".encode(), b"--std=c++17"]
        status = library.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
        if status:
            raise CompilationError(_text(library, program))
        size = ctypes.c_size_t()
        _check(library.nvrtcGetPTXSize(program, ctypes.byref(size)), library)
        text = ctypes.create_string_buffer(size.value)
        _check(library.nvrtcGetPTX(program, text), library)
        return _for_older_drivers(text.value.decode(), compute_capability)
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))


def _for_older_drivers(ptx: str, compute_capability: int) -> str:
    """Returns PTX in an old version of the language, as nothing new is used up to Hopper: drivers refuse later ones."""
    return re.sub(r"^\.version .*$", ".version 8.3", ptx, count=1, flags=re.M) if compute_capability <= 90 else ptx


def _text(library: ctypes.CDLL, program: ctypes.c_void_p) -> str:
    size = ctypes.c_size_t()
    library.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    library.nvrtcGetProgramLog(program, log)
    return log.value.decode(errors="replace")


def _check(status: int, library: ctypes.CDLL) -> None:
    if status:
        library.nvrtcGetErrorString.restype = ctypes.c_char_p
        raise CompilationError(library.nvrtcGetErrorString(status).decode())


@functools.cache
def _library() -> ctypes.CDLL | None:
    for name in _candidates():
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    return None


def _candidates() -> list[str]:
    """Returns where the library may be: among Python's packages, then wherever the system looks."""
    found: list[str] = []
    spec = importlib.util.find_spec("nvidia")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        found += [str(path) for path in sorted(Path(folder).glob("*/lib/libnvrtc.so.*"), reverse=True)]
    system = ctypes.util.find_library("nvrtc")
    return found + ([system] if system else [])
