"""Traced functions as lists of operations, which can be cut and run with values that are rows of stacks over time."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend.core import JaxprEqn, Literal, Var
from jaxtyping import Array, PyTree

from narkit.loops.backend import PLAIN, Backend
from narkit.loops.stacks import Row, write_row

# Linear maps of a single argument: applied to a sum they give the sum of what they give.
LINEAR = {"transpose", "reshape", "squeeze", "convert_element_type", "reduce_sum", "broadcast_in_dim", "neg", "slice"}


@dataclass(frozen=True)
class TracedProgram:
    """A traced function as a list of operations."""

    operations: list[JaxprEqn]
    inputs: list[Var]
    outputs: list[Any]
    constants: dict[Var, Any]

    @property
    def variables(self) -> set[Var]:
        """The variables that the operations read or the program returns."""
        read = [var for eqn in self.operations for var in eqn.invars] + self.outputs
        return {var for var in read if isinstance(var, Var)}

    def for_outputs(self, outputs: Sequence[Any], given: Iterable[Var] = ()) -> TracedProgram:
        """Returns the program for other outputs, without what they do not depend on if the values `given` are known."""
        given = set(given)
        needed = {var for var in outputs if isinstance(var, Var)}
        kept = []
        for eqn in reversed(self.operations):
            if not (needed - given).isdisjoint(eqn.outvars):
                kept.append(eqn)
                needed |= {var for var in eqn.invars if isinstance(var, Var)}
        return TracedProgram(kept[::-1], self.inputs, list(outputs), self.constants)

    def run(
        self,
        arguments: Sequence[Any],
        t: Array,
        last: Array,
        known: Mapping[Var, Any] | None = None,
        stacks: Mapping[Var, Array] | None = None,
        backend: Backend = PLAIN,
    ) -> list[Any]:
        """Runs the program at step t. A backend may leave out samples whose `last` step is over.

        `known` values take the place of arguments, and of operations that are no longer there. Values with one of the
        `stacks` are written there, by the operations of the backend that make them if they can.
        """
        values = {**self.constants, **dict(zip(self.inputs, arguments, strict=False)), **(known or {})}
        named = {eqn.outvars[0]: eqn.invars[0] for eqn in self.operations if eqn.primitive.name == "name"}
        written = {named.get(var, var): stack for var, stack in (stacks or {}).items()}
        return _interpret(self.operations, self.outputs, values, written, t, last, backend)


def named_values(program: TracedProgram, name: str) -> list[Var]:
    """Returns the values that bear a name."""
    return [eqn.outvars[0] for eqn in program.operations if eqn.primitive.name == "name" and eqn.params["name"] == name]


def trace(function: Callable, *arguments: PyTree) -> TracedProgram:
    """Traces a function, with the bodies of nested `jax.jit` calls in their place so that all products are visible."""
    nested = jax.make_jaxpr(function)(*arguments)

    def flat(*leaves):
        values = dict(zip([*nested.jaxpr.constvars, *nested.jaxpr.invars], [*nested.consts, *leaves], strict=True))
        return _interpret(nested.jaxpr.eqns, nested.jaxpr.outvars, values)

    closed = jax.make_jaxpr(flat)(*jax.tree.leaves(arguments))
    jaxpr = closed.jaxpr
    return TracedProgram(
        jaxpr.eqns, jaxpr.invars, jaxpr.outvars, dict(zip(jaxpr.constvars, closed.consts, strict=True))
    )


def _interpret(
    operations: Iterable[JaxprEqn],
    outputs: Iterable[Any],
    values: dict[Var, Any],
    written: Mapping[Any, Array] | None = None,
    t: Array | None = None,
    last: Array | None = None,
    backend: Backend = PLAIN,
) -> list[Any]:
    """Runs operations. Values may be rows of stacks; those with a stack in `written` are written to row t of it."""

    def read(var: Any) -> Any:
        return var.val if isinstance(var, Literal) else values[var]

    for eqn in operations:
        arguments = [read(var) for var in eqn.invars]
        if backend.works_on_rows(eqn):
            stacks = {i: written[var] for i, var in enumerate(eqn.outvars) if var in written} if written else {}
            values.update(zip(eqn.outvars, backend.run_on_rows(eqn, arguments, stacks, t, last), strict=True))
            continue
        if eqn.primitive.name == "name":
            value, stack = arguments[0], written.get(eqn.invars[0]) if written else None
            if stack is not None and not (isinstance(value, Row) and value.is_new):
                # Written before it is read, so that a backend reads it there and it need not be anywhere else.
                assert t is not None
                value = Row(write_row(stack, value_of(value), t), t, is_new=True, known=value_of(value))
            if isinstance(value, Row):
                values[eqn.outvars[0]] = value
                continue
        results = _apply(eqn, [value_of(argument) for argument in arguments], in_loop=t is not None)
        values.update(zip(eqn.outvars, results, strict=True))
    return [read(var) for var in outputs]


def _apply(eqn: JaxprEqn, arguments: list[Any], in_loop: bool) -> Sequence[Any]:
    """Runs one operation; of a nested `jax.jit`, those in it. In a loop, sums over rows are taken by `sum_of_rows`."""
    if eqn.primitive.name in ("jit", "pjit"):
        body = eqn.params["jaxpr"]
        inner = dict(zip([*body.jaxpr.constvars, *body.jaxpr.invars], [*body.consts, *arguments], strict=True))
        return _interpret(body.jaxpr.eqns, body.jaxpr.outvars, inner)
    if eqn.primitive.name == "reshape" and shape_of(eqn.invars[0]) == shape_of(eqn.outvars[0]):
        return arguments  # JAX 0.11 has such, each of which would be another value to stack
    if eqn.primitive.name == "split":  # as slices, which are linear maps with a single result
        sizes, axis = eqn.params["sizes"], eqn.params["axis"]
        cut = zip(sizes, itertools.accumulate(sizes), strict=True)
        return [lax.slice_in_dim(arguments[0], end - size, end, axis=axis) for size, end in cut]
    if in_loop and _is_sum_of_rows(eqn):
        return [sum_of_rows(arguments[0])]
    results = eqn.primitive.bind(*arguments, **eqn.primitive.get_bind_params(eqn.params))
    return results if eqn.primitive.multiple_results else [results]


def _is_sum_of_rows(eqn: JaxprEqn) -> bool:
    """Returns whether all axes but the last are summed over, as for the gradient of a bias."""
    if eqn.primitive.name != "reduce_sum":
        return False
    aval = aval_of(eqn.invars[0])
    return tuple(eqn.params["axes"]) == tuple(range(aval.ndim - 1)) and jnp.issubdtype(aval.dtype, jnp.floating)


def sum_of_rows(values: Array) -> Array:
    """Returns the sum over all axes but the last.

    On a CPU as a product: XLA's own sums over rows walk down one column after the other, which takes several times as
    long.
    """
    rows = values.reshape(-1, values.shape[-1])

    def as_product(rows: Array) -> Array:
        return jnp.ones(len(rows), rows.dtype) @ rows

    return lax.platform_dependent(rows, cpu=as_product, default=lambda rows: rows.sum(0))


def linear_chain(
    producer: dict[Var, JaxprEqn], var: Any, names: Container[str] = LINEAR
) -> tuple[Any, tuple[JaxprEqn, ...]]:
    """Follows a variable back through linear maps; returns where they start, and the maps in order."""
    maps: list[JaxprEqn] = []
    while isinstance(var, Var) and (eqn := producer.get(var)) is not None and eqn.primitive.name in names:
        maps.append(eqn)
        var = eqn.invars[0]
    return (var if isinstance(var, Var) else None), tuple(reversed(maps))


def value_of(value: Any) -> Any:
    return value.value if isinstance(value, Row) else value


def aval_of(var: Any) -> Any:
    """Returns the shape and type of a variable, which is always an array here."""
    return var.aval


def shape_of(var: Any) -> tuple[int, ...]:
    return tuple(aval_of(var).shape)
