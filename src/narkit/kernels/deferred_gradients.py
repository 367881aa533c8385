"""Takes the reverse of a step apart: what must run inside the time loop, and what can wait until after it.

The gradient of a weight is a sum over steps, of products `x_t^T y_t` for a Linear and of plain sums for a bias. If
the factors are small it is cheaper to stack them over the steps and to multiply once after the loop, than to launch a
product per weight and step. This module finds those products in the traced program of a backward step (its jaxpr) and
cuts it there. Whatever it does not recognise is summed inside the loop, so it can cost time but never be wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend.core import JaxprEqn, Literal, Var
from jax.typing import ArrayLike
from jaxtyping import Array, PyTree

LARGEST_FACTOR = 2**19
"""Factors with more elements than this (per seed) are multiplied inside the loop: stacking them would cost more."""

# Linear maps of a single argument: applied to a sum they give the sum of what they give.
_LINEAR = {"transpose", "reshape", "squeeze", "convert_element_type", "reduce_sum", "broadcast_in_dim", "neg"}


@dataclass(frozen=True)
class _Deferred:
    """A weight's gradient that is finished after the loop: a product (or sum) over time, then linear maps."""

    factors: tuple[Var, ...]  # one: summed over time; two: multiplied
    product: JaxprEqn | None
    maps: tuple[JaxprEqn, ...]  # from the product towards the gradient


class BackwardStep:
    """One step in reverse, `(params, data, t, carry, d_carry, d_y) -> d_carry, summands, factors`."""

    def __init__(self, pull_back: Callable, params: PyTree, data: PyTree, t: ArrayLike, carry: PyTree, d_y: PyTree):
        program = _trace(pull_back, params, data, t, carry, carry, d_y)
        self._params = jax.tree.structure(params)
        self._carry = jax.tree.structure(carry)
        num_carry = self._carry.num_leaves
        d_carry, gradients = program.outputs[:num_carry], program.outputs[num_carry:]
        self._deferred = _find_deferred(program, gradients)
        self._summed = [var for var, deferred in zip(gradients, self._deferred, strict=True) if deferred is None]
        self._stacked = list(dict.fromkeys(var for d in self._deferred if d is not None for var in d.factors))
        self._inside = program.for_outputs([*d_carry, *self._summed, *self._stacked])
        before = len(jax.tree.leaves((params, data, t)))
        self._reads = [var in self._inside.variables for var in program.inputs[before : before + num_carry]]

    def __call__(self, params, data, t, carry, d_carry, d_y) -> tuple[PyTree, list[Array], list[Array]]:
        results = self._inside.run(jax.tree.leaves((params, data, t, carry, d_carry, d_y)))
        carries, sums = self._carry.num_leaves, len(self._summed)
        return (
            jax.tree.unflatten(self._carry, results[:carries]),
            results[carries : carries + sums],
            results[carries + sums :],
        )

    def what_it_reads(self, carry: PyTree) -> list[Array]:
        """The parts of the carry that the step in reverse depends on."""
        return [leaf for leaf, is_read in zip(jax.tree.leaves(carry), self._reads, strict=True) if is_read]

    def restore(self, read: Sequence[Array], blank: PyTree) -> PyTree:
        """A carry with the parts that are read, and blanks for the rest."""
        parts = iter(read)
        leaves = zip(jax.tree.leaves(blank), self._reads, strict=True)
        return jax.tree.unflatten(self._carry, [next(parts) if is_read else leaf for leaf, is_read in leaves])

    def empty_sums(self) -> list[Array]:
        return [jnp.zeros(_shape(var), _aval(var).dtype) for var in self._summed]

    def empty_stacks(self, capacity: int) -> list[Array]:
        return [jnp.zeros((capacity, *_shape(var)), _aval(var).dtype) for var in self._stacked]

    def finish(self, sums: Sequence[Array], stacks: Sequence[Array]) -> PyTree:
        """The gradients of the parameters, from what the loop summed and stacked."""
        remaining = iter(sums)
        stack_of = dict(zip(self._stacked, stacks, strict=True))
        gradients = [
            next(remaining) if deferred is None else _evaluate(deferred, stack_of) for deferred in self._deferred
        ]
        return jax.tree.unflatten(self._params, gradients)


def _aval(var: Any) -> Any:
    """The shape and type of a variable, which is always an array here."""
    return var.aval


def _shape(var: Any) -> tuple[int, ...]:
    return tuple(_aval(var).shape)


def _evaluate(deferred: _Deferred, stack_of: dict[Var, Array]) -> Array:
    factors = [stack_of[var] for var in deferred.factors]
    if deferred.product is None:
        value = factors[0].sum(0)
    else:
        params = deferred.product.params
        (left, right), _ = params["dimension_numbers"]
        over_time = ((0, *(axis + 1 for axis in left)), (0, *(axis + 1 for axis in right)))
        value = lax.dot_general(
            *factors,
            dimension_numbers=(over_time, ((), ())),
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

    def for_outputs(self, outputs: Sequence[Any]) -> _Program:
        """The program for other outputs, without what they do not depend on."""
        needed = {var for var in outputs if isinstance(var, Var)}
        kept = []
        for eqn in reversed(self.operations):
            if not needed.isdisjoint(eqn.outvars):
                kept.append(eqn)
                needed |= {var for var in eqn.invars if isinstance(var, Var)}
        return _Program(kept[::-1], self.inputs, list(outputs), self.constants)

    def run(self, arguments: Sequence[Any]) -> list[Any]:
        values = {**self.constants, **dict(zip(self.inputs, arguments, strict=True))}
        return _interpret(self.operations, self.outputs, values)


def _trace(function: Callable, *arguments: PyTree) -> _Program:
    """Traces a function, with the bodies of nested `jax.jit` calls in their place so that all products are visible."""
    nested = jax.make_jaxpr(function)(*arguments)

    def flat(*leaves):
        values = dict(zip([*nested.jaxpr.constvars, *nested.jaxpr.invars], [*nested.consts, *leaves], strict=True))
        return _interpret(nested.jaxpr.eqns, nested.jaxpr.outvars, values)

    closed = jax.make_jaxpr(flat)(*jax.tree.leaves(arguments))
    jaxpr = closed.jaxpr
    return _Program(jaxpr.eqns, jaxpr.invars, jaxpr.outvars, dict(zip(jaxpr.constvars, closed.consts, strict=True)))


def _interpret(operations: Iterable[JaxprEqn], outputs: Iterable[Any], values: dict[Var, Any]) -> list[Any]:
    def read(var: Any) -> Any:
        return var.val if isinstance(var, Literal) else values[var]

    for eqn in operations:
        arguments = [read(var) for var in eqn.invars]
        if eqn.primitive.name in ("jit", "pjit"):
            body = eqn.params["jaxpr"]
            inner = dict(zip([*body.jaxpr.constvars, *body.jaxpr.invars], [*body.consts, *arguments], strict=True))
            results = _interpret(body.jaxpr.eqns, body.jaxpr.outvars, inner)
        else:
            results = eqn.primitive.bind(*arguments, **eqn.primitive.get_bind_params(eqn.params))
            results = results if eqn.primitive.multiple_results else [results]
        values.update(zip(eqn.outvars, results, strict=True))
    return [read(var) for var in outputs]


def _find_deferred(program: _Program, gradients: Sequence[Any]) -> list[_Deferred | None]:
    """For each gradient, how to finish it after the loop; None where it must be summed inside."""
    producer = {var: eqn for eqn in program.operations for var in eqn.outvars}
    chains = [_linear_chain(producer, var) for var in gradients]
    found: list[_Deferred | None] = [None] * len(gradients)
    for i, (start, maps) in enumerate(chains):
        product = producer.get(start)
        if product is not None and _is_small_product(product):
            factors = tuple(var for var in product.invars if isinstance(var, Var))
            found[i] = _Deferred(factors, product, maps)
    stacked = {var for deferred in found if deferred is not None for var in deferred.factors}
    for i, (start, maps) in enumerate(chains):
        if found[i] is None and start in stacked:
            found[i] = _Deferred((start,), None, maps)
    return found


def _linear_chain(producer: dict[Var, JaxprEqn], var: Any) -> tuple[Any, tuple[JaxprEqn, ...]]:
    """Follows a variable back through linear maps: where they start, and the maps in order."""
    maps: list[JaxprEqn] = []
    while isinstance(var, Var) and (eqn := producer.get(var)) is not None and eqn.primitive.name in _LINEAR:
        maps.append(eqn)
        var = eqn.invars[0]
    return (var if isinstance(var, Var) else None), tuple(reversed(maps))


def _is_small_product(eqn: JaxprEqn) -> bool:
    if eqn.primitive.name != "dot_general" or not all(isinstance(var, Var) for var in eqn.invars):
        return False
    _, (batched, _) = eqn.params["dimension_numbers"]
    return not batched and all(_aval(var).size <= LARGEST_FACTOR for var in eqn.invars)
