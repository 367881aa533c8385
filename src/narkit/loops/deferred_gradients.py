"""Takes the reverse of a step apart: what must run inside the time loop, and what can wait until after it.

The gradient of a weight is a sum over steps, of products `x_t^T y_t` for a Linear and of plain sums for a bias. If
the factors are small it is cheaper to stack them over the steps and to multiply once after the loop, than to launch a
product per weight and step. This module finds those products in the traced program of a backward step (its jaxpr) and
cuts it there. Whatever it does not recognise is summed inside the loop, so it can cost time but never be wrong.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name
from jax.extend.core import JaxprEqn, Literal, Var
from jax.typing import ArrayLike
from jaxtyping import Array, PyTree

from narkit.loops.backend import PLAIN, Backend, Stack
from narkit.loops.deferred_products import PARTS, Deferred, Factor, evaluate
from narkit.loops.stacks import Row, write_row
from narkit.loops.traced_program import (
    LINEAR,
    TracedProgram,
    aval_of,
    linear_chain,
    named_values,
    shape_of,
    trace,
    value_of,
)

LARGEST_FACTOR = 2**19
"""Factors with more elements than this (per seed) are multiplied inside the loop: stacking them would cost more. Values
that bear the name `STACKED` are stacked whatever their size."""

SAVED = "saved"
"""Values of this name (see `jax.ad_checkpoint.checkpoint_name`) are kept from the forward pass, not computed again."""

STACKED = "stacked"

Values = TypeVar("Values")  # arrays, or a tree of them

_OF_FACTORS = LINEAR | {"pad"}  # maps that make a factor of a value; to fill up with constants need not be linear here


def keep_values(values: Values) -> Values:
    """Returns the values, all of which bear the name `SAVED`."""
    return checkpoint_name(values, SAVED)


def stack_values(values: Values) -> Values:
    """Returns the values, all of which bear the name `STACKED`."""
    return checkpoint_name(values, STACKED)


@jax.custom_vjp
def stack_cotangent(values: Array) -> Array:
    """Returns the values, whose cotangent bears the name `STACKED`."""
    return values


stack_cotangent.defvjp(lambda values: (values, None), lambda _, d: (stack_values(d),))


class ReversibleStep:
    """One step forward and backward, made from its pull-back.

    `pull_back(params, data, t, carry, d_carry, d_y, d_z)` gives the next carry, y, z, d_carry and d_params. Forward, a
    step gives the next carry and y, and adds a row to the residuals: z, and what the backward pass reads. Backward, it
    gives d_carry and the gradients to sum, and adds a row to the factors that are stacked. Operations of the backend
    write their rows, and read them, where they are; of samples whose `last` step is over, they write zeros. The first
    axis of the carry and of named values is that of samples, if it is as long.
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
        backend: Backend = PLAIN,
    ):
        self._backend = backend
        program = trace(pull_back, params, data, t, carry, carry, d_y, d_z)
        self._params, self._carry, self._y, self._z = map(jax.tree.structure, (params, carry, d_y, d_z))
        self._num_forward = len(jax.tree.leaves((params, data, t, carry)))
        num_carry = self._carry.num_leaves
        sizes = (num_carry, self._y.num_leaves, self._z.num_leaves, num_carry)
        next_carry, self._y_vars, self._z_vars, d_carry, gradients = _split(program.outputs, sizes)
        named = named_values(program, SAVED)
        self._written_y = _made_on_rows(program, self._y_vars, backend)
        self._carried = carried = program.inputs[self._num_forward - num_carry : self._num_forward]
        self._deferred = _find_deferred(program, gradients, {*carried, *named})
        self._of_samples = {*carried, *named, *named_values(program, STACKED)}
        self._by_backend = [terms for terms in self._deferred if terms and backend.can_finish(terms)]
        self._summed = [var for var, terms in zip(gradients, self._deferred, strict=True) if not terms]
        factors = list(dict.fromkeys(factor.var for terms in self._deferred for d in terms for factor in d.factors))
        backward = program.for_outputs([*d_carry, *self._summed, *factors], given=named)
        # The residuals: what the backward pass reads of the forward pass. Factors among them are not stacked once more.
        wanted = backward.variables | set(self._z_vars)
        self._kept = list(dict.fromkeys(var for var in (*carried, *named, *self._z_vars) if var in wanted))
        self._stacked = [var for var in factors if var not in set(self._kept)]
        self._derived = _find_derived(program, self._y_vars, self._kept)
        self._y_stacked = [var for var in dict.fromkeys(self._y_vars) if var not in self._derived]
        self._backward = backward.for_outputs([*d_carry, *self._summed, *self._stacked], given=named)
        self._forward = program.for_outputs([*next_carry, *self._y_stacked, *self._kept])

    def forward(
        self, params, data, t, last, carry, ys: Sequence[Array], kept: Sequence[Array]
    ) -> tuple[PyTree, list[Array], list[Array]]:
        stacks = dict(zip(self._kept, kept, strict=True))
        stacks |= {var: stack for var, stack in zip(self._y_stacked, ys, strict=True) if var in self._written_y}
        # Written before it is read, so that a backend reads it there and the carry's memory is free for the next one.
        known = {
            var: Row(write_row(stacks[var], value, t), t, is_new=True, known=value)
            for var, value in zip(self._carried, jax.tree.leaves(carry), strict=True)
            if var in stacks
        }
        results = self._forward.run(jax.tree.leaves((params, data, t, carry)), t, last, known, stacks, self._backend)
        next_carry, y, rows = _split(results, (self._carry.num_leaves, len(ys)))
        y = [row if var in self._written_y else value_of(row) for var, row in zip(self._y_stacked, y, strict=True)]
        return (
            jax.tree.unflatten(self._carry, [value_of(result) for result in next_carry]),
            _with_rows(ys, y, t),
            _with_rows(kept, rows, t),
        )

    def all_ys(self, ys: Sequence[Array], kept: Sequence[Array], num_steps: Array) -> PyTree:
        """Returns the stacks of y, also of those that are parts of residuals; zero beyond the last step."""
        stack_of = dict(zip(self._kept, kept, strict=True))
        found = dict(zip(self._y_stacked, ys, strict=True))
        found |= {var: factor.over_time(stack_of[factor.var]) for var, factor in self._derived.items()}
        # What was not written may be anything; the compiler makes this part of what reads them.
        if not self._backend.rows_start_as_zeros:
            found = {var: _zero_beyond(stack, num_steps) for var, stack in found.items()}
        return jax.tree.unflatten(self._y, [found[var] for var in self._y_vars])

    def kept_z(self, kept: Sequence[Array]) -> PyTree:
        """Returns the stacks of z."""
        stack_of = dict(zip(self._kept, kept, strict=True))
        return jax.tree.unflatten(self._z, [stack_of[var] for var in self._z_vars])

    def backward(
        self, params, data, t, last, kept: Sequence[Array], d_carry, d_y, d_z, stacks: Sequence[Array]
    ) -> tuple[PyTree, list[Array], list[Array]]:
        before = jax.tree.leaves((params, data, t))
        unread = [None] * self._carry.num_leaves
        known = {var: Row(stack, t) for var, stack in zip(self._kept, kept, strict=True)}
        arguments = [*before, *unread, *jax.tree.leaves((d_carry, d_y, d_z))]
        written = dict(zip(self._stacked, stacks, strict=True))
        results = self._backward.run(arguments, t, last, known, written, self._backend)
        carries, sums = self._carry.num_leaves, len(self._summed)
        return (
            jax.tree.unflatten(self._carry, [value_of(result) for result in results[:carries]]),
            [value_of(result) for result in results[carries : carries + sums]],
            _with_rows(stacks, results[carries + sums :], t),
        )

    def empty_sums(self) -> list[Array]:
        return [jnp.zeros(shape_of(var), aval_of(var).dtype) for var in self._summed]

    @property
    def ys(self) -> list[Stack]:
        """The stacks of y that are no parts of residuals."""
        return [Stack(shape_of(var), aval_of(var).dtype, zero_beyond=False) for var in self._y_stacked]

    @property
    def kept(self) -> list[Stack]:
        """The stacks of the residuals: what the forward pass keeps for the backward pass."""
        return self._stacks(self._kept)

    @property
    def stacked(self) -> list[Stack]:
        """The stacks of the factors that the backward pass keeps until after the loop."""
        return self._stacks(self._stacked)

    def _stacks(self, variables: Sequence[Var]) -> list[Stack]:
        """Returns the stacks of variables, with zeros beyond the last step for factors that are left to the compiler:
        it reads all rows, since it does not know the number of steps."""
        left = [terms for terms in self._deferred if terms not in self._by_backend]
        read = {factor.var for terms in left for deferred in terms for factor in deferred.factors}
        return [Stack(shape_of(var), aval_of(var).dtype, zero_beyond=var in read) for var in variables]

    def finish(
        self, sums: Sequence[Array], stacks: Sequence[Array], kept: Sequence[Array], num_steps: Array, last: Array
    ) -> PyTree:
        """Returns the gradients of the parameters, from what the loops summed and stacked and from the residuals."""
        remaining = iter(sums)
        stack_of = dict(zip(self._kept, kept, strict=True)) | dict(zip(self._stacked, stacks, strict=True))
        chosen = list(itertools.chain.from_iterable(self._by_backend))
        by_sample = {var for var in self._of_samples if shape_of(var)[:1] == last.shape}
        finished = self._backend.finish(chosen, stack_of, num_steps, last, by_sample)
        known = dict(zip(chosen, finished, strict=True))
        gradients = [
            evaluate(terms, stack_of, known, self._backend) if terms else next(remaining) for terms in self._deferred
        ]
        return jax.tree.unflatten(self._params, gradients)


def _split(values: Sequence[Any], sizes: Sequence[int]) -> list[list[Any]]:
    """Returns the values in parts of the given sizes, and the remaining ones."""
    ends = [0, *itertools.accumulate(sizes), len(values)]
    return [list(values[start:end]) for start, end in itertools.pairwise(ends)]


def _zero_beyond(stack: Array, num_steps: Array) -> Array:
    run = jnp.arange(len(stack)) < num_steps
    return jnp.where(run.reshape(-1, *(1,) * (stack.ndim - 1)), stack, jnp.zeros((), stack.dtype))


def _with_rows(stacks: Sequence[Array], rows: Sequence[Any], t: Array) -> list[Array]:
    """Returns the stacks with a further row each, which a backend has written already or which is written now.

    A row that is only passed on belongs to another stack.
    """
    return [
        row.stack if isinstance(row, Row) and row.is_new else write_row(stack, value_of(row), t)
        for stack, row in zip(stacks, rows, strict=True)
    ]


def _made_on_rows(program: TracedProgram, variables: Sequence[Any], backend: Backend) -> set[Var]:
    """Returns the variables that come out of an operation that writes rows in place, once, and under no name."""
    made = {var for eqn in program.operations if backend.works_on_rows(eqn) for var in eqn.outvars}
    named = {eqn.invars[0] for eqn in program.operations if eqn.primitive.name == "name"}
    return {var for var in variables if isinstance(var, Var) and var in made - named and variables.count(var) == 1}


def _find_derived(program: TracedProgram, variables: Sequence[Any], kept: Sequence[Var]) -> dict[Var, Factor]:
    """Returns the variables that are parts of residuals, and the maps that make them of these."""
    producer = {var: eqn for eqn in program.operations for var in eqn.outvars}
    chains = [(var, linear_chain(producer, var, PARTS)) for var in variables]
    return {var: Factor(start, maps) for var, (start, maps) in chains if start in kept}


def _find_deferred(program: TracedProgram, gradients: Sequence[Any], kept: set[Var]) -> list[tuple[Deferred, ...]]:
    """Returns, for each gradient, the terms to finish it from after the loop; none where it must be summed inside.

    `kept` are values that are residuals if the backward pass reads them.
    """
    producer = {var: eqn for eqn in program.operations for var in eqn.outvars}
    named = set(named_values(program, STACKED))
    sums = [_summands(producer, var) for var in gradients]
    found: dict[tuple[Any, tuple[JaxprEqn, ...]], Deferred] = {}
    for start, maps in itertools.chain.from_iterable(sums):
        product = producer.get(start)
        if product is None or product.primitive.name != "dot_general":
            continue
        factors = [_factor(producer, var, named, kept) for var in product.invars]
        stackable = tuple(factor for factor in factors if factor is not None)
        if len(stackable) == len(factors):
            found[start, maps] = Deferred(stackable, product, maps)
    stacked = named | {factor.var for deferred in found.values() for factor in deferred.factors}
    for start, maps in itertools.chain.from_iterable(sums):
        if (start, maps) not in found and start in stacked:
            found[start, maps] = Deferred((Factor(start),), None, maps)
    return [
        tuple(found[term] for term in summands) if all(term in found for term in summands) else () for summands in sums
    ]


def _summands(producer: dict[Var, JaxprEqn], var: Any) -> list[tuple[Any, tuple[JaxprEqn, ...]]]:
    """Returns the summands of a variable, each as a value and the linear maps behind it."""
    start, maps = linear_chain(producer, var)
    eqn = producer.get(start) if start is not None else None
    if eqn is None or eqn.primitive.name != "add_any":
        return [(start, maps)]
    return [(first, (*inner, *maps)) for part in eqn.invars for first, inner in _summands(producer, part)]


def _factor(producer: dict[Var, JaxprEqn], var: Any, named: set[Var], kept: set[Var]) -> Factor | None:
    """Returns a factor of a product, if it can be stacked: a part of a value that is stacked anyway, or a small one."""
    start, maps = linear_chain(producer, var)
    if start in named:
        return Factor(start, maps)
    of_kept, maps_of_kept = linear_chain(producer, var, _OF_FACTORS)
    if of_kept in kept and all(isinstance(c, Literal) for eqn in maps_of_kept for c in eqn.invars[1:]):
        return Factor(of_kept, maps_of_kept)
    if not isinstance(var, Var) or aval_of(var).size > LARGEST_FACTOR:
        return None
    # Where maps only change the shape, the value before them, which a bias may be the sum of.
    return Factor(start, maps) if start is not None and aval_of(start).size == aval_of(var).size else Factor(var)
