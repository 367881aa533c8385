"""Takes the reverse of a step apart: what must run inside the time loop, and what can wait until after it.

The gradient of a weight is a sum over steps, of products `x_t^T y_t` for a Linear and of plain sums for a bias. If
the factors are small it is cheaper to stack them over the steps and to multiply once after the loop, than to launch a
product per weight and step. This module finds those products in the traced program of a backward step (its jaxpr) and
cuts it there. Whatever it does not recognise is summed inside the loop, so it can cost time but never be wrong.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend.core import JaxprEqn, Literal, Var
from jax.typing import ArrayLike
from jaxtyping import Array, PyTree

from narkit.kernels.fused import launch
from narkit.kernels.stacks import Row, write_row

LARGEST_FACTOR = 2**19
"""Factors with more elements than this (per seed) are multiplied inside the loop: stacking them would cost more. Values
that bear the name `STACKED` are stacked whatever their size."""

SAVED = "saved"
"""Values of this name (see `jax.ad_checkpoint.checkpoint_name`) are kept from the way forth, not computed again."""

STACKED = "stacked"

# Linear maps of a single argument: applied to a sum they give the sum of what they give.
_LINEAR = {"transpose", "reshape", "squeeze", "convert_element_type", "reduce_sum", "broadcast_in_dim", "neg", "slice"}


@dataclass(frozen=True)
class _Deferred:
    """A weight's gradient that is finished after the loop: a product (or sum) over time, then linear maps."""

    factors: tuple[_Factor, ...]  # one: summed over time; two: multiplied
    product: JaxprEqn | None
    maps: tuple[JaxprEqn, ...]  # from the product towards the gradient


@dataclass(frozen=True)
class _Factor:
    """A value that is stacked over time, and the linear maps that make a factor of it."""

    var: Var
    maps: tuple[JaxprEqn, ...] = ()

    def over_time(self, stack: Array) -> Array:
        for eqn in self.maps:
            stack = jax.vmap(lambda value, eqn=eqn: eqn.primitive.bind(value, **eqn.params))(stack)
        return stack


class ReversibleStep:
    """One step forth and back, made from its pull-back.

    `pull_back(params, data, t, carry, d_carry, d_y, d_z)` gives the next carry, y, z, d_carry and d_params. Forth, a
    step gives the next carry and y, and adds a row to what is kept: z, and what the way back reads; back, it gives
    d_carry and the gradients to sum, and adds a row to the factors that are stacked. Kernels write their rows, and read
    them, where they are.
    """

    def __init__(
        self,
        pull_back: Callable,
        params: PyTree,
        data: PyTree,
        t: ArrayLike,
        carry: PyTree,
        d_y: PyTree,
        d_z: PyTree,
    ):
        program = _trace(pull_back, params, data, t, carry, carry, d_y, d_z)
        self._params, self._carry, self._y, self._z = map(jax.tree.structure, (params, carry, d_y, d_z))
        self._num_forth = len(jax.tree.leaves((params, data, t, carry)))
        num_carry = self._carry.num_leaves
        sizes = (num_carry, self._y.num_leaves, self._z.num_leaves, num_carry)
        next_carry, self._y_vars, self._z_vars, d_carry, gradients = _split(program.outputs, sizes)
        named = _named(program, SAVED)
        self._written_y = _made_by_kernels(program, self._y_vars)
        self._deferred = _find_deferred(program, gradients)
        self._summed = [var for var, deferred in zip(gradients, self._deferred, strict=True) if deferred is None]
        factors = list(dict.fromkeys(factor.var for d in self._deferred if d is not None for factor in d.factors))
        carried = program.inputs[self._num_forth - num_carry : self._num_forth]
        back = program.for_outputs([*d_carry, *self._summed, *factors], given=named)
        # What the way back reads of the way forth is kept; factors among it need not be stacked once more.
        wanted = back.variables | set(self._z_vars)
        self._kept = list(dict.fromkeys(var for var in (*carried, *named, *self._z_vars) if var in wanted))
        self._stacked = [var for var in factors if var not in set(self._kept)]
        self._back = back.for_outputs([*d_carry, *self._summed, *self._stacked], given=named)
        self._forth = program.for_outputs([*next_carry, *self._y_vars, *self._kept])

    def forth(self, params, data, t, carry, ys: PyTree, kept: Sequence[Array]) -> tuple[PyTree, PyTree, list[Array]]:
        y_stacks = jax.tree.leaves(ys)
        stacks = dict(zip(self._kept, kept, strict=True))
        stacks |= {var: stack for var, stack in zip(self._y_vars, y_stacks, strict=True) if var in self._written_y}
        results = self._forth.run(jax.tree.leaves((params, data, t, carry)), t, stacks=stacks)
        next_carry, y, rows = _split(results, (self._carry.num_leaves, len(y_stacks)))
        y = [row if var in self._written_y else value_of(row) for var, row in zip(self._y_vars, y, strict=True)]
        return (
            jax.tree.unflatten(self._carry, [value_of(result) for result in next_carry]),
            jax.tree.unflatten(self._y, _with_rows(y_stacks, y, t)),
            _with_rows(kept, rows, t),
        )

    def kept_z(self, kept: Sequence[Array]) -> PyTree:
        """The stacks of z."""
        stack_of = dict(zip(self._kept, kept, strict=True))
        return jax.tree.unflatten(self._z, [stack_of[var] for var in self._z_vars])

    def back(
        self, params, data, t, kept: Sequence[Array], d_carry, d_y, d_z, stacks: Sequence[Array]
    ) -> tuple[PyTree, list[Array], list[Array]]:
        before = jax.tree.leaves((params, data, t))
        unread = [None] * self._carry.num_leaves
        known = {var: Row(stack, t) for var, stack in zip(self._kept, kept, strict=True)}
        arguments = [*before, *unread, *jax.tree.leaves((d_carry, d_y, d_z))]
        results = self._back.run(arguments, t, known, dict(zip(self._stacked, stacks, strict=True)))
        carries, sums = self._carry.num_leaves, len(self._summed)
        return (
            jax.tree.unflatten(self._carry, [value_of(result) for result in results[:carries]]),
            [value_of(result) for result in results[carries : carries + sums]],
            _with_rows(stacks, results[carries + sums :], t),
        )

    def empty_sums(self) -> list[Array]:
        return [jnp.zeros(_shape(var), _aval(var).dtype) for var in self._summed]

    def empty_kept(self, capacity: int) -> list[Array]:
        return [jnp.zeros((capacity, *_shape(var)), _aval(var).dtype) for var in self._kept]

    def empty_stacks(self, capacity: int) -> list[Array]:
        return [jnp.zeros((capacity, *_shape(var)), _aval(var).dtype) for var in self._stacked]

    def finish(self, sums: Sequence[Array], stacks: Sequence[Array], kept: Sequence[Array]) -> PyTree:
        """The gradients of the parameters, from what the loops summed, stacked and kept (zero beyond the last step)."""
        remaining = iter(sums)
        stack_of = dict(zip(self._kept, kept, strict=True)) | dict(zip(self._stacked, stacks, strict=True))
        gradients = [
            next(remaining) if deferred is None else _evaluate(deferred, stack_of) for deferred in self._deferred
        ]
        return jax.tree.unflatten(self._params, gradients)


def _split(values: Sequence[Any], sizes: Sequence[int]) -> list[list[Any]]:
    """Values in parts of the given sizes, and the remaining ones."""
    ends = [0, *itertools.accumulate(sizes), len(values)]
    return [list(values[start:end]) for start, end in itertools.pairwise(ends)]


def value_of(value: Any) -> Any:
    return value.value if isinstance(value, Row) else value


def _with_rows(stacks: Sequence[Array], rows: Sequence[Any], t: Array) -> list[Array]:
    """The stacks with a further row each, which a kernel has written already or which is written now.

    A row that is only passed on belongs to another stack.
    """
    return [
        row.stack if isinstance(row, Row) and row.is_new else write_row(stack, value_of(row), t)
        for stack, row in zip(stacks, rows, strict=True)
    ]


def _aval(var: Any) -> Any:
    """The shape and type of a variable, which is always an array here."""
    return var.aval


def _shape(var: Any) -> tuple[int, ...]:
    return tuple(_aval(var).shape)


def _evaluate(deferred: _Deferred, stack_of: dict[Var, Array]) -> Array:
    factors = [factor.over_time(stack_of[factor.var]) for factor in deferred.factors]
    if deferred.product is None:
        value = factors[0].sum(0)
    else:
        params = deferred.product.params
        (left, right), (batched_left, batched_right) = params["dimension_numbers"]
        later = lambda axes: tuple(axis + 1 for axis in axes)  # noqa: E731
        value = lax.dot_general(
            *factors,
            dimension_numbers=(((0, *later(left)), (0, *later(right))), (later(batched_left), later(batched_right))),
            precision=params["precision"],
            preferred_element_type=params["preferred_element_type"],
        )
    for eqn in deferred.maps:
        value = eqn.primitive.bind(value, **eqn.params)
    return value


@dataclass(frozen=True)
class _Program:
    """A traced function as a list of operations."""

    operations: list[JaxprEqn]
    inputs: list[Var]
    outputs: list[Any]
    constants: dict[Var, Any]

    @property
    def variables(self) -> set[Var]:
        """Everything that the operations read or the program gives out."""
        read = [var for eqn in self.operations for var in eqn.invars] + self.outputs
        return {var for var in read if isinstance(var, Var)}

    def for_outputs(self, outputs: Sequence[Any], given: Iterable[Var] = ()) -> _Program:
        """The program for other outputs, without what they do not depend on if the values `given` are known."""
        given = set(given)
        needed = {var for var in outputs if isinstance(var, Var)}
        kept = []
        for eqn in reversed(self.operations):
            if not (needed - given).isdisjoint(eqn.outvars):
                kept.append(eqn)
                needed |= {var for var in eqn.invars if isinstance(var, Var)}
        return _Program(kept[::-1], self.inputs, list(outputs), self.constants)

    def run(
        self,
        arguments: Sequence[Any],
        t: Array,
        known: Mapping[Var, Any] | None = None,
        stacks: Mapping[Var, Array] | None = None,
    ) -> list[Any]:
        """Runs the program at step t.

        `known` values take the place of arguments, and of operations that are no longer there. Values with one of the
        `stacks` are written there, by the kernels that make them if they can.
        """
        values = {**self.constants, **dict(zip(self.inputs, arguments, strict=False)), **(known or {})}
        named = {eqn.outvars[0]: eqn.invars[0] for eqn in self.operations if eqn.primitive.name == "name"}
        written = {named.get(var, var): stack for var, stack in (stacks or {}).items()}
        return _interpret(self.operations, self.outputs, values, written, t)


def _named(program: _Program, name: str) -> list[Var]:
    """The values that bear a name."""
    return [eqn.outvars[0] for eqn in program.operations if eqn.primitive.name == "name" and eqn.params["name"] == name]


def _made_by_kernels(program: _Program, variables: Sequence[Any]) -> set[Var]:
    """Those of the variables that come out of a kernel, once, and under no name."""
    made = {var for eqn in program.operations if eqn.primitive is launch.primitive for var in eqn.outvars}
    named = {eqn.invars[0] for eqn in program.operations if eqn.primitive.name == "name"}
    return {var for var in variables if isinstance(var, Var) and var in made - named and variables.count(var) == 1}


def _trace(function: Callable, *arguments: PyTree) -> _Program:
    """Traces a function, with the bodies of nested `jax.jit` calls in their place so that all products are visible."""
    nested = jax.make_jaxpr(function)(*arguments)

    def flat(*leaves):
        values = dict(zip([*nested.jaxpr.constvars, *nested.jaxpr.invars], [*nested.consts, *leaves], strict=True))
        return _interpret(nested.jaxpr.eqns, nested.jaxpr.outvars, values)

    closed = jax.make_jaxpr(flat)(*jax.tree.leaves(arguments))
    jaxpr = closed.jaxpr
    return _Program(jaxpr.eqns, jaxpr.invars, jaxpr.outvars, dict(zip(jaxpr.constvars, closed.consts, strict=True)))


def _interpret(
    operations: Iterable[JaxprEqn],
    outputs: Iterable[Any],
    values: dict[Var, Any],
    written: Mapping[Any, Array] | None = None,
    t: Array | None = None,
) -> list[Any]:
    """Runs operations. Values may be rows of stacks; those with a stack in `written` are written to row t of it."""

    def read(var: Any) -> Any:
        return var.val if isinstance(var, Literal) else values[var]

    for eqn in operations:
        arguments = [read(var) for var in eqn.invars]
        if eqn.primitive is launch.primitive:
            stacks = {i: written[var] for i, var in enumerate(eqn.outvars) if var in written} if written else {}
            values.update(zip(eqn.outvars, launch.run_on_rows(arguments, stacks, t, **eqn.params), strict=True))
            continue
        if eqn.primitive.name == "name":
            value, stack = arguments[0], written.get(eqn.invars[0]) if written else None
            if stack is not None and not (isinstance(value, Row) and value.is_new):
                # Written before it is read, so that kernels read it there and it need not be anywhere else.
                assert t is not None
                value = Row(write_row(stack, value_of(value), t), t, is_new=True, known=value_of(value))
            if isinstance(value, Row):
                values[eqn.outvars[0]] = value
                continue
        arguments = [value_of(argument) for argument in arguments]
        if eqn.primitive.name in ("jit", "pjit"):
            body = eqn.params["jaxpr"]
            inner = dict(zip([*body.jaxpr.constvars, *body.jaxpr.invars], [*body.consts, *arguments], strict=True))
            results = _interpret(body.jaxpr.eqns, body.jaxpr.outvars, inner)
        elif eqn.primitive.name == "reshape" and arguments[0].shape == _shape(eqn.outvars[0]):
            results = arguments  # one value under two names would be stacked twice
        else:
            results = eqn.primitive.bind(*arguments, **eqn.primitive.get_bind_params(eqn.params))
            results = results if eqn.primitive.multiple_results else [results]
        values.update(zip(eqn.outvars, results, strict=True))
    return [read(var) for var in outputs]


def _find_deferred(program: _Program, gradients: Sequence[Any]) -> list[_Deferred | None]:
    """For each gradient, how to finish it after the loop; None where it must be summed inside."""
    producer = {var: eqn for eqn in program.operations for var in eqn.outvars}
    chains = [_linear_chain(producer, var) for var in gradients]
    named = set(_named(program, STACKED))
    found: list[_Deferred | None] = [None] * len(gradients)
    for i, (start, maps) in enumerate(chains):
        product = producer.get(start)
        if product is None or product.primitive.name != "dot_general":
            continue
        factors = [_factor(producer, var, named) for var in product.invars]
        stackable = tuple(factor for factor in factors if factor is not None)
        if len(stackable) == len(factors):
            found[i] = _Deferred(stackable, product, maps)
    stacked = named | {factor.var for deferred in found if deferred is not None for factor in deferred.factors}
    for i, (start, maps) in enumerate(chains):
        if found[i] is None and start in stacked:
            found[i] = _Deferred((_Factor(start),), None, maps)
    return found


def _factor(producer: dict[Var, JaxprEqn], var: Any, named: set[Var]) -> _Factor | None:
    """A factor of a product, if it can be stacked: as a part of a value that is to be stacked anyway, or if small."""
    start, maps = _linear_chain(producer, var)
    if start in named:
        return _Factor(start, maps)
    return _Factor(var) if isinstance(var, Var) and _aval(var).size <= LARGEST_FACTOR else None


def _linear_chain(producer: dict[Var, JaxprEqn], var: Any) -> tuple[Any, tuple[JaxprEqn, ...]]:
    """Follows a variable back through linear maps: where they start, and the maps in order."""
    maps: list[JaxprEqn] = []
    while isinstance(var, Var) and (eqn := producer.get(var)) is not None and eqn.primitive.name in _LINEAR:
        maps.append(eqn)
        var = eqn.invars[0]
    return (var if isinstance(var, Var) else None), tuple(reversed(maps))
