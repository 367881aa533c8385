"""New stacks over time, of which only those rows are zero that the loop will not write.

To fill everything with zeros first would take as long as to write the stacks once more.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_batching import custom_vmap
from jaxtyping import Array, PyTree

from narkit.fused import launch
from narkit.loops.backend import Stack

MOST_BLOCKS = 64  # per array and seed


def allocate_stacks(stacks: Sequence[Stack], num_steps: Array, capacity: int, beside: PyTree) -> list[Array]:
    """Returns arrays of `capacity` rows, of which those from `num_steps` on are zero where that matters.

    The others may hold anything. `beside` is all that the loop reads: where any of it has an axis of seeds, the stacks
    have it, too.
    """
    shapes = [((capacity, *stack.shape), stack.dtype) for stack in stacks]
    allocated = {i: jnp.zeros(shape, dtype) for i, (shape, dtype) in enumerate(shapes) if not math.prod(shape)}
    made = [i for i in range(len(stacks)) if i not in allocated]
    if made:
        results = _make([stacks[i] for i in made], [shapes[i] for i in made], num_steps, jax.tree.leaves(beside))
        allocated |= dict(zip(made, results, strict=True))
    return [allocated[i] for i in range(len(stacks))]


def _make(stacks: Sequence[Stack], shapes: Sequence[launch.Output], num_steps: Array, beside: list[Array]):
    capacity = shapes[0][0][0]
    kernel = _kernel(stacks, capacity)

    def run(num_steps: Array, seeds: int, *lead: int) -> list[Array]:
        outputs = [((*lead, *shape), dtype) for shape, dtype in shapes]
        return kernel(num_steps, outputs=outputs, seeds=seeds, rows=launch.Rows((), (), capacity))

    # The kernel reads nothing that has an axis of seeds, so only a rule of our own can tell that there is one.
    @custom_vmap
    def allocate(num_steps: Array, beside: list[Array]) -> list[Array]:
        return run(num_steps, 1)

    @allocate.def_vmap
    def _(size, batched, num_steps, beside):
        if batched[0]:  # every seed with a number of steps of its own
            results = [jnp.zeros((size, *shape), dtype) for shape, dtype in shapes]
        else:
            results = run(num_steps, size, size)
        return results, [True] * len(shapes)

    return allocate(num_steps, beside)


def _kernel(stacks: Sequence[Stack], capacity: int) -> launch.Kernel:
    names = [f"a{i}" for i in range(len(stacks))]
    sizes = [math.prod(stack.shape) * np.dtype(stack.dtype).itemsize * stack.zero_beyond for stack in stacks]
    blocks = max(1, min(MOST_BLOCKS, capacity * max(sizes) // (16 * launch.THREADS)))
    arrays = len(stacks) if any(sizes) else 1  # a launch is still what makes the arrays
    macros = (
        ("BLOCKS", blocks),
        ("ARRAYS", len(stacks)),
        ("OUTPUTS", ", ".join(f"char* {name}" for name in names)),
        ("POINTERS", ", ".join(names)),
        ("ROW_BYTES", ", ".join(str(size) for size in sizes)),
    )
    return launch.Kernel("stack_allocation.cu", "clear_unwritten_rows", macros, (blocks, arrays), 0)
