"""Whether kernels are launched as they should be: one small kernel is run, and what it gives is compared.

XLA launches our kernels through a call target that it does not promise to keep. Where that is missing, or does
something else than it did, networks run by the plain formulas.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from narkit.fused import launch

BLOCKS, SEEDS, CAPACITY, STEP = 3, 2, 4, 2


def run() -> str | None:
    """Returns why kernels cannot be launched here, or None if they can."""
    shape = (2, BLOCKS, launch.THREADS)
    values = np.arange(SEEDS * np.prod(shape), dtype=np.float32).reshape(SEEDS, *shape)
    scale = np.array([0.5, 2.0], np.float32)
    rows = launch.Rows((), (1,), CAPACITY)
    kernel = launch.Kernel(
        "probe.cu", "probe", (("BLOCKS", BLOCKS),), (BLOCKS, 2), 4 * launch.THREADS, rows_written=((1, "TIMED_row"),)
    )
    outputs = ((SEEDS, *shape), (SEEDS, CAPACITY, *shape))
    try:
        with jax.ensure_compile_time_eval():  # programs that are being traced may be what asks
            stack = jnp.full(outputs[1], -1.0)
            operands = (jnp.asarray(values), jnp.asarray(scale), jnp.asarray(STEP, jnp.int32), stack)
            turned, stack = kernel(*operands, outputs=launch.in_float32(*outputs), seeds=SEEDS, rows=rows)
            turned, stack = np.asarray(turned), np.asarray(stack)
    except Exception as error:  # whatever JAX, XLA, NVRTC or the driver have to say
        return f"XLA could not launch a kernel ({type(error).__name__}: {str(error).splitlines()[0][:200]})"
    block = np.arange(2 * BLOCKS, dtype=np.float32).reshape(2, BLOCKS, 1)
    seed = np.arange(SEEDS, dtype=np.float32).reshape(SEEDS, 1, 1, 1)
    expected = values[..., ::-1] * scale.reshape(SEEDS, 1, 1, 1) + block
    expected_stack = np.full(outputs[1], -1.0, np.float32)
    expected_stack[:, STEP] = 1000.0 * STEP + 100.0 * seed + block
    if np.array_equal(turned, expected) and np.array_equal(stack, expected_stack):
        return None
    return "XLA launched a kernel otherwise than expected: its results were wrong"
