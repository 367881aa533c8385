"""Finishes a weight's gradient after a loop over time: products and sums of what was stacked, then linear maps.

A backend (see `backend`) may finish those that it can. Others are left to the compiler, which reads all rows, so those
beyond the last step must be zero.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
from jax import lax
from jax.extend.core import JaxprEqn, Literal, Var
from jaxtyping import Array

from narkit.loops.backend import PLAIN, Backend

PARTS = {"reshape", "squeeze", "slice"}
"""The operations that only take a part of a value."""


@dataclass(frozen=True, eq=False)
class Deferred:
    """A term of a weight's gradient that is finished after the loop: a product (or sum) over time, then linear maps.

    There are as many terms as things that read the weight.
    """

    factors: tuple[Factor, ...]  # one: summed over time; two: multiplied
    product: JaxprEqn | None
    maps: tuple[JaxprEqn, ...]  # from the product towards the gradient


@dataclass(frozen=True)
class Factor:
    """A value that is stacked over time, and the maps that make a factor of it."""

    var: Var
    maps: tuple[JaxprEqn, ...] = ()

    def over_time(self, stack: Array) -> Array:
        for eqn in self.maps:
            constants = [var.val for var in eqn.invars[1:] if isinstance(var, Literal)]
            stack = jax.vmap(lambda value, eqn=eqn, c=constants: eqn.primitive.bind(value, *c, **eqn.params))(stack)
        return stack


def evaluate(
    terms: Sequence[Deferred], stack_of: Mapping[Var, Array], known: Mapping[Deferred, Array], backend: Backend = PLAIN
) -> Array:
    """Finishes a gradient; `known` are those of its terms that the backend has finished."""
    return functools.reduce(
        operator.add, [known[term] if term in known else _evaluate(term, stack_of, backend) for term in terms]
    )


def apply_maps(value: Array, maps: Sequence[JaxprEqn]) -> Array:
    """Applies the linear maps from a product, or a sum, towards the gradient."""
    for eqn in maps:
        value = eqn.primitive.bind(value, **eqn.params)
    return value


def _evaluate(deferred: Deferred, stack_of: Mapping[Var, Array], backend: Backend) -> Array:
    factors = [factor.over_time(stack_of[factor.var]) for factor in deferred.factors]
    if deferred.product is None:
        value = factors[0].sum(0)
    else:
        left, right = factors
        value = _product_over_time(left, right, deferred.product.params, backend)
    return apply_maps(value, deferred.maps)


def _product_over_time(left: Array, right: Array, params: Mapping[str, Any], backend: Backend) -> Array:
    """Returns the sum over time of the products that `params` describes for a single step."""
    (left_axes, right_axes), (batched_left, batched_right) = params["dimension_numbers"]
    options = {"precision": params["precision"], "preferred_element_type": params["preferred_element_type"]}
    first = range(len(left_axes))
    if left_axes != right_axes or set(left_axes) != set(first) or batched_left:
        later = lambda axes: tuple(axis + 1 for axis in axes)  # noqa: E731
        contracted = ((0, *later(left_axes)), (0, *later(right_axes)))
        batched = (later(batched_left), later(batched_right))
        return lax.dot_general(left, right, dimension_numbers=(contracted, batched), **options)
    # All that is summed over stands in front: as one axis, or XLA would transpose the stacks to make it one.
    rows = math.prod(left.shape[: 1 + len(first)])
    left, right = (x.reshape(rows, *x.shape[1 + len(first) :]) for x in (left, right))
    parts = backend.parts_of_product(rows, math.prod(left.shape[1:]), math.prod(right.shape[1:]))
    if parts == 1:
        return lax.dot_general(left, right, dimension_numbers=(((0,), (0,)), ((), ())), **options)
    left, right = (x.reshape(parts, rows // parts, *x.shape[1:]) for x in (left, right))
    return lax.dot_general(left, right, dimension_numbers=(((1,), (1,)), ((0,), (0,))), **options).sum(0)
