"""One cache of compiled code for all tests, for their workers, and for the processes that they start.

Compiling is most of what the tests cost. Programs of JAX, functions of Numba and kernels that g++ compiles for the CPU
are kept in a folder of the checkout, which git ignores, under names that say what they were compiled from. So nothing
that is out of date is found there, and what has not been used for a week is removed.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib.metadata
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / ".test_cache"
LONGEST_UNUSED = 7 * 24 * 3600  # seconds

# A process ends at once if XLA does not know an option. No core is free for each part that a program would be divided
# into; and in jaxlib 0.10 the newer way to compile fused operations for CPUs takes four times as long as the one
# before, which jaxlib 0.11 no longer has.
XLA_OPTIONS = ["--xla_cpu_parallel_codegen_split_count=1"]
if importlib.metadata.version("jaxlib").startswith("0.10."):
    XLA_OPTIONS.append("--xla_cpu_use_fusion_emitters=false")

SETTINGS = {
    # Programs are tiny here: what makes them quick takes longer than they do.
    "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",
    "XLA_FLAGS": " ".join(XLA_OPTIONS),
    "NUMBA_OPT": "1",  # not 0, with which Numba on its own keeps nothing: see `optimise_functions_little`
    "JAX_COMPILATION_CACHE_DIR": str(FOLDER / "programs"),
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    # Numba's names do not say how much was optimised, so that these are kept apart from those of everyday use.
    "NUMBA_CACHE_DIR": str(FOLDER / "functions"),
}


def share_compiled_programs() -> None:
    """Sets the variables that JAX and Numba read when they are imported. What is set already stays."""
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
    FOLDER.mkdir(exist_ok=True)
    if "PYTEST_XDIST_WORKER" not in os.environ:
        _remove_unused()


def optimise_functions_little() -> None:
    """Lets Numba optimise nothing, which takes a third off its part of the tests, and keep the functions nevertheless.

    It refuses to where a program has the address of another function. Without optimisation every caller has some that
    it never uses; these passes remove them. Processes that tests start do without, with `NUMBA_OPT`.
    """
    from numba.core import config
    from numba.core.codegen import CPUCodegen, CPUCodeLibrary

    settings: Any = config
    if not (hasattr(CPUCodeLibrary, "_optimize_final_module") and hasattr(CPUCodegen, "_pass_builder")):
        return  # nothing promises that Numba keeps them
    optimise = CPUCodeLibrary._optimize_final_module

    def optimise_and_remove(library: Any) -> None:
        optimise(library)
        builder = library._codegen._pass_builder(opt=0)
        passes = builder.getModulePassManager()
        passes.add_sroa_pass()
        passes.add_instruction_combine_pass()
        passes.add_global_dead_code_eliminate_pass()
        passes.run(library._final_module, builder)

    setattr(CPUCodeLibrary, "_optimize_final_module", optimise_and_remove)  # noqa: B010
    settings.OPT = type(settings.OPT)(0)


def _remove_unused() -> None:
    earliest = time.time() - LONGEST_UNUSED
    for file in FOLDER.rglob("*"):
        with contextlib.suppress(OSError):  # another process may remove it, too
            status = file.stat()
            if file.is_file() and max(status.st_atime, status.st_mtime) < earliest:
                file.unlink()


@contextlib.contextmanager
def locked(name: str) -> Iterator[None]:
    """Lets one process at a time do what goes by this name, so that others find it done."""
    FOLDER.mkdir(exist_ok=True)
    with (FOLDER / f"{name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
