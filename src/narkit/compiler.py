"""Options for XLA, the same for every program of a process."""

from __future__ import annotations

import functools
import os
from pathlib import Path

import jax

OPTIONS: dict[str, dict[str, str | bool]] = {
    "gpu": {
        # XLA's rewriting of softmaxes fails on TEAM where edges have a single scalar, as in the sorts. Its merger of
        # products concatenates operands at every step of a loop; what is worth merging is merged before the loop.
        "xla_disable_hlo_passes": "triton-softmax-rewriter,dot-merger",
        # Beside fused kernels few products are left. Tuning them gained 5 to 7 % at n = 16; the slowest program took
        # 36 s to compile instead of 20. At n = 4 one run gained half and another nothing: see benchmarks/LOG.md.
        "xla_gpu_autotune_level": "0",
        "xla_gpu_enable_triton_gemm": False,
        # The whole step as one CUDA graph, its loops included, in which what does not wait for each other runs side by
        # side. On an H200 a processor step of TEAM went from 0.391 to 0.295 ms for articulation_points at n = 7 and
        # from 0.601 to 0.563 ms for bfs at n = 16.
        "xla_gpu_enable_command_buffer": (
            "FUSION,CUBLAS,CUBLASLT,CUDNN,CUSTOM_CALL,DYNAMIC_SLICE_FUSION,WHILE,CONDITIONAL"
        ),
        "xla_gpu_command_buffer_scheduling_mode": "CONCURRENT",
    },
    # XLA hands products and reductions to YNNPACK, which is slow on those over triplets: with JAX 0.10 a training step
    # of TEAM takes twice as long, with 0.11 one of Triplet-GMPNN half as long again (and one of TEAM a sixth less).
    "cpu": {"xla_cpu_experimental_ynn_fusion_type": ""},
}
"""The options that work around weaknesses of XLA, by backend."""


@functools.cache
def compiler_options() -> dict[str, str | bool] | None:
    """Returns the `compiler_options` of `jax.jit` for networks, without the options that this jaxlib does not know.

    XLA takes such options for a whole program, so only the outermost `jit` may have them.
    """
    wanted = OPTIONS.get(jax.default_backend(), {})
    return {name: value for name, value in wanted.items() if is_known(name, value)} or None


def is_known(name: str, value: str | bool) -> bool:
    """Returns whether the installed jaxlib takes this option. XLA's options come and go with its versions."""
    argument = jax.ShapeDtypeStruct((), jax.numpy.float32)
    try:
        jax.jit(lambda x: x, compiler_options={name: value}).lower(argument).compile()
    except jax.errors.JaxRuntimeError as error:
        if "INVALID_ARGUMENT" not in str(error):
            raise
        return False
    return True


def keep_compiled_programs(quickest: float | None = None) -> None:
    """Turns JAX's persistent cache on, unless the user has set it up already.

    Programs that compile in less than `quickest` seconds are not kept; JAX's own choice is a second.
    """
    if jax.config.jax_compilation_cache_dir is None:  # type: ignore[attr-defined]
        home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        jax.config.update("jax_compilation_cache_dir", str(home / "narkit" / "programs"))
        if quickest is not None:
            jax.config.update("jax_persistent_cache_min_compile_time_secs", quickest)
