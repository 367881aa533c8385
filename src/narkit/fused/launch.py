"""The one place that launches fused kernels.

Kernels are CUDA C++ in the `.cu` files beside this, compiled when a program is traced: NVRTC, which comes with JAX's
CUDA packages, makes PTX for the GPU at hand (Ampere or later), and XLA launches it like one of its own kernels. On
other machines the plain formulas run.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray
from jax.extend.core import Primitive, jaxprs_in_params
from jax.interpreters import batching, mlir
from jaxtyping import Array

from narkit.fused import nvrtc
from narkit.loops.stacks import Row

THREADS = 128  # of a block, where a kernel does not say otherwise


@functools.cache
def compute_capability() -> int:
    """Returns the compute capability of the GPU in use, times ten: 90 for Hopper."""
    return round(10 * float(jax.devices()[0].compute_capability))


@functools.cache
def shared_bytes_of_a_block() -> int:
    """Returns how much shared memory a block can have on the GPU in use; where there is none, on Hopper."""
    capability = round(10 * float(getattr(jax.devices()[0], "compute_capability", 9.0)))
    small = {86: 99, 89: 99, 120: 99, 121: 99, 80: 163, 87: 163}
    return 1024 * small.get(capability, 227)


Output = tuple[tuple[int, ...], Any]
"""The shape and the type of an array that a kernel writes."""


def in_float32(*shapes: tuple[int, ...]) -> list[Output]:
    """Returns arrays of these shapes, of float32, as a kernel writes them."""
    return [(shape, jnp.float32) for shape in shapes]


@dataclass(frozen=True)
class Kernel:
    """A kernel for certain sizes: a file, the name of a function in it, and what its macros are."""

    source: str
    name: str
    macros: tuple[tuple[str, int | float | str], ...]
    grid: tuple[int, int]  # per seed
    shared_bytes: int
    rows_read: tuple[tuple[int, str], ...] = ()  # operands that may be rows of stacks over time, and the macros for it
    rows_written: tuple[tuple[int, str], ...] = ()  # the same for outputs
    copied: tuple[int, ...] = ()  # outputs that are given as they are, too, after the others, if they are such rows
    threads: int = field(default=THREADS, kw_only=True)  # per block

    def __call__(
        self, *operands: Array, outputs: Sequence[Output], seeds: int = 1, rows: Rows | None = None
    ) -> list[Array]:
        """Runs the kernel; `outputs` are the shapes and types of the arrays that it writes."""
        shapes = tuple(jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in outputs)
        return primitive.bind(*operands, kernel=self, outputs=shapes, seeds=seeds, rows=rows)

    def code(self, rows: Rows | None = None) -> str:
        """Returns the source with its macros, as a compiler reads it."""
        lines = [f"#define {name} {_literal(value)}" for name, value in self.macros]
        lines.append(f"#define BUILD_{self.name}")
        text = _read("common.cuh") + _read(self.source)
        timed = set()
        if rows is not None:
            timed = {dict(self.rows_read)[i] for i in rows.read} | {dict(self.rows_written)[i] for i in rows.written}
            # Stacks that are written come as operands, too, and take the same memory.
            unused = "const void*, " * len(rows.written)
            ends = ""
            if rows.ends:
                ends = "const int* last_steps, "
                lines.append("#define ENDS")
            lines += [f"#define CAPACITY {rows.capacity}", f"#define TIME_PARAMETERS const int* time, {ends}{unused}"]
        lines += [f"#define {name} {int(name in timed)}" for name in sorted(set(re.findall(r"\bTIMED_\w+", text)))]
        return "\n".join([*lines, text])


@dataclass(frozen=True)
class Rows:
    """The operands and outputs of a kernel that are stacks over time, of which it reads and writes one row.

    After its other operands such a kernel takes the row's number, with `ends` the last step of each sample, and then
    the stacks that it writes.
    """

    read: tuple[int, ...]
    written: tuple[int, ...]
    capacity: int
    ends: bool = False


def run_on_rows(
    operands: Sequence[Any],
    stacks: Mapping[int, Array],
    t: Array | None,
    last: Array | None,
    *,
    kernel: Kernel,
    outputs,
    seeds,
    rows,
) -> list[Any]:
    """Runs a kernel. Operands may be rows of stacks; outputs with one of the `stacks` are written to its row t.

    What the kernel cannot read or write in place is copied, or returned for others to write. For samples whose `last`
    step is over it writes zeros.
    """
    assert rows is None
    # Under a `jax.vmap` inside the step (`seeds` above 1) rows have an axis more than kernels know of in stacks.
    may_read, may_write = (dict(kernel.rows_read), dict(kernel.rows_written)) if seeds == 1 else ({}, {})
    read = tuple(i for i, operand in enumerate(operands) if isinstance(operand, Row) and i in may_read)
    # A macro moves all outputs that bear it, so these are written in place together or not at all.
    whole = {name for name in may_write.values() if all(i in stacks for i, macro in may_write.items() if macro == name)}
    written = tuple(i for i in stacks if may_write.get(i) in whole)
    values = [
        operand.stack if i in read else operand.value if isinstance(operand, Row) else operand
        for i, operand in enumerate(operands)
    ]
    if not read and not written:
        return primitive.bind(*values, kernel=kernel, outputs=outputs, seeds=seeds, rows=None)
    assert t is not None
    capacity = (operands[read[0]].stack if read else stacks[written[0]]).shape[0]
    shapes = tuple(
        jax.ShapeDtypeStruct((capacity, *output.shape), output.dtype) if i in written else output
        for i, output in enumerate(outputs)
    )
    copied = [i for i in written if i in kernel.copied]
    shapes += tuple(outputs[i] for i in copied)
    # A kernel that does not count samples as the loop does cannot know whose last step it is.
    ends = [] if last is None or dict(kernel.macros).get("SAMPLES") != len(last) else [last]
    results = primitive.bind(
        *values, t, *ends, *(stacks[i] for i in written),
        kernel=kernel, outputs=shapes, seeds=1, rows=Rows(read, written, capacity, bool(ends)),
    )  # fmt: skip
    known = dict(zip(copied, results[len(outputs) :], strict=True))
    return [
        Row(result, t, is_new=True, known=known.get(i)) if i in written else result
        for i, result in enumerate(results[: len(outputs)])
    ]


def _literal(value: int | float | str) -> str:
    return f"{value!r}f" if isinstance(value, float) else str(value)


@functools.cache
def _read(name: str) -> str:
    """Returns the text of a file and of those that it includes."""
    text = (Path(__file__).parent / name).read_text()
    return re.sub(r'^#include "(.*)"$', lambda found: _read(found[1]), text, flags=re.M)


# ------------------------------------------------------------------------------------------------------- as a primitive

primitive = Primitive("fused_kernel")
primitive.multiple_results = True

emulator: Callable[..., Any] | None = None
"""For tests: `emulator(kernel, rows, seeds, outputs, *operands)` runs a kernel on a CPU."""


@primitive.def_abstract_eval
def _shapes(*_: Any, outputs: Sequence[jax.ShapeDtypeStruct], **__: Any) -> list[Any]:
    return [ShapedArray(output.shape, output.dtype) for output in outputs]


@primitive.def_impl
def _run(*operands: Array, **options: Any) -> list[Array]:
    return jax.jit(lambda *args: primitive.bind(*args, **options))(*operands)


def _batch(operands: Sequence[Array], axes: Sequence[int | None], *, kernel, outputs, seeds, rows):
    """Makes a further axis one of seeds: kernels take as many as there are, each with its own weights."""
    size = next(x.shape[axis] for x, axis in zip(operands, axes, strict=True) if axis is not None)
    time = None if rows is None else len(operands) - len(rows.written) - rows.ends - 1  # one for all seeds
    if time is not None and axes[time] is not None:
        # A kernel reads one number of the row. `time_loop` under `jax.vmap` over numbers of steps would get here.
        raise NotImplementedError("seeds whose loops are at different steps; give them one number of steps")
    moved = [
        x if i == time else jnp.broadcast_to(x, (size, *x.shape)) if axis is None else jnp.moveaxis(x, axis, 0)
        for i, (x, axis) in enumerate(zip(operands, axes, strict=True))
    ]
    stacked = tuple(jax.ShapeDtypeStruct((size, *output.shape), output.dtype) for output in outputs)
    results = primitive.bind(*moved, kernel=kernel, outputs=stacked, seeds=size * seeds, rows=rows)
    return results, [0] * len(results)


batching.primitive_batchers[primitive] = _batch


def launches_in(program: Any) -> Iterator[Any]:
    """Finds the operations that launch kernels in a traced program (a jaxpr), and in the programs inside it."""
    for eqn in program.eqns:
        if eqn.primitive is primitive:
            yield eqn
        for inner in jaxprs_in_params(eqn.params):
            yield from launches_in(inner)


def compile_kernels(program: Any) -> None:
    """Compiles the kernels in a traced program (a jaxpr), so that lowering it finds them.

    Several threads may do so at a time, while only one can lower.
    """
    if jax.default_backend() == "gpu":
        for eqn in launches_in(program):
            nvrtc.compile_to_ptx(eqn.params["kernel"].code(eqn.params["rows"]), compute_capability())


def _lower_to_gpu(context, *operands, kernel: Kernel, outputs, seeds: int, rows: Rows | None):
    aliases = {}
    if rows is not None:
        first = len(operands) - len(rows.written)
        aliases = {first + i: output for i, output in enumerate(rows.written)}
    rule = jax.ffi.ffi_lowering("__gpu$xla.gpu.ptx", operand_output_aliases=aliases)
    grid, block = (*kernel.grid, seeds), (kernel.threads, 1, 1)
    sizes = {f"{what}_{axis}": np.int32(size) for what, shape in (("grid", grid), ("block", block))
             for axis, size in zip("xyz", shape, strict=True)}  # fmt: skip
    return rule(
        context,
        *operands,
        name=kernel.name,
        kernel_type="ptx",
        kernel_data=nvrtc.compile_to_ptx(kernel.code(rows), compute_capability()),
        shared_mem_bytes=np.int32(kernel.shared_bytes),
        output_indices=[np.int32(len(operands) + i) for i in range(len(outputs))],
        **sizes,
    )


mlir.register_lowering(primitive, _lower_to_gpu, platform="cuda")


def _lower_to_cpu(*operands: Array, kernel: Kernel, outputs, seeds: int, rows: Rows | None):
    if emulator is None:
        raise RuntimeError(f"the kernel {kernel.name} runs on NVIDIA GPUs only; use the plain mode")
    run = functools.partial(emulator, kernel, rows, seeds, outputs)
    return jax.pure_callback(run, list(outputs), *operands)


mlir.register_lowering(primitive, mlir.lower_fun(_lower_to_cpu, multiple_results=True), platform="cpu")
