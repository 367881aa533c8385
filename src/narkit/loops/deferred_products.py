"""How a weight's gradient is finished after a loop over time: products and sums of what was stacked, then linear maps.

Beside fused kernels, those that fit are made by the kernels of `fused.over_time`, all together and from the rows of the
steps that were run. Others are left to the compiler, which reads all rows, so those beyond the last step must be zero.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.core import JaxprEqn, Literal, Var
from jaxtyping import Array

from narkit.fused import launch, over_time
from narkit.loops.traced_program import aval_of, shape_of

TILES_PER_PRODUCT = 32
"""Tiles of 128 x 128, times parts of the sum, that a product over time is cut into (per seed): see `_parts`."""

SHORTEST_PART = 256  # rows

PARTS = {"reshape", "squeeze", "slice"}
"""Maps that only take a part."""


@dataclass(frozen=True, eq=False)
class Deferred:
    """A weight's gradient that is finished after the loop: a product (or sum) over time, then linear maps."""

    factors: tuple[Factor, ...]  # one: summed over time; two: multiplied
    product: JaxprEqn | None
    maps: tuple[JaxprEqn, ...]  # from the product towards the gradient

    @property
    def terms(self) -> tuple[Deferred, ...]:
        return (self,)

    @property
    def fits_kernel(self) -> bool:
        """Whether the kernels for products and sums over time can finish it."""
        if self.product is None:
            return self.summed_axes > 0
        left, right = self.factors
        columns = (left.columns, right.columns)
        params = self.product.params
        (left_axes, right_axes), (batched, _) = params["dimension_numbers"]
        return (
            None not in columns
            and (not left.has_ones or right.can_be_summed)
            and (not right.has_ones or left.can_be_summed)
            and aval_of(left.var).dtype == aval_of(right.var).dtype
            and aval_of(self.product.outvars[0]).dtype == jnp.float32
            and params["precision"] in (None, lax.Precision.DEFAULT, (lax.Precision.DEFAULT, lax.Precision.DEFAULT))
            and left_axes == right_axes
            and not batched
            and all(set(left_axes) == set(range(len(shape_of(var)) - 1)) for var in self.product.invars)
        )

    @property
    def is_transposed(self) -> bool:
        """Whether the product is transposed before anything else. A kernel makes it so at once."""
        return self.product is not None and bool(self.maps) and self.maps[0].primitive.name == "transpose"

    @property
    def summed_axes(self) -> int:
        """How many of the first axes of a single step are summed, where a kernel can do so; else 0."""
        value = aval_of(self.factors[0].var)
        if not self.maps or self.maps[0].primitive.name != "reduce_sum" or value.dtype != jnp.float32:
            return 0
        axes = self.maps[0].params["axes"]
        count = next((axis for axis in range(value.ndim) if axis not in axes), value.ndim)
        return count if math.prod(value.shape[count:]) % 4 == 0 and value.size else 0


@dataclass(frozen=True)
class Sum:
    """A weight's gradient that is a sum of such, because several things read the weight."""

    terms: tuple[Deferred, ...]

    @property
    def factors(self) -> tuple[Factor, ...]:
        return tuple(factor for term in self.terms for factor in term.factors)

    @property
    def fits_kernel(self) -> bool:
        return all(term.fits_kernel for term in self.terms)


@dataclass(frozen=True)
class Factor:
    """A value that is stacked over time, and the maps that make a factor of it."""

    var: Var
    maps: tuple[JaxprEqn, ...] = ()

    @property
    def columns(self) -> tuple[int, int, int] | None:
        """As a part of a table whose rows run along the last axis: all columns, the first of the part, their number.

        Without the ones, if it has them. None if kernels cannot read it.
        """
        value = aval_of(self.var)
        if not value.size or not value.ndim:
            return None
        start, total = 0, value.shape[-1]
        width = total
        for eqn in self.maps[: len(self.maps) - self.has_ones]:
            before, after = shape_of(eqn.invars[0]), shape_of(eqn.outvars[0])
            # Gradients of `x[..., 0]` are such broadcasts to one more axis, of length one: another shape.
            reshapes = eqn.primitive.name == "broadcast_in_dim" and math.prod(before) == math.prod(after)
            if not after or not (reshapes or eqn.primitive.name in PARTS):
                return None
            if eqn.primitive.name == "slice":
                if before[:-1] != after[:-1] or eqn.params["strides"] is not None:
                    return None
                start, width = start + eqn.params["start_indices"][-1], after[-1]
            elif width == total:
                total = width = after[-1]
            elif after[-1] != width:
                return None
        return (total, start, width) if over_time.fits(width, start, total, value.dtype) else None

    @property
    def has_ones(self) -> bool:
        """Whether a last column of ones stands beside the others."""
        if not self.maps or self.maps[-1].primitive.name != "pad":
            return False
        *others, on_columns = self.maps[-1].params["padding_config"]
        filled = self.maps[-1].invars[1]
        is_one = isinstance(filled, Literal) and bool(np.asarray(filled.val) == 1)
        return is_one and on_columns == (0, 1, 0) and all(padding == (0, 0, 0) for padding in others)

    @property
    def can_be_summed(self) -> bool:
        """Whether the kernels can also sum it over all rows."""
        value, columns = aval_of(self.var), self.columns
        return columns is not None and columns[0] % 4 == 0 and value.dtype == jnp.float32 and not self.has_ones

    def over_time(self, stack: Array) -> Array:
        for eqn in self.maps:
            constants = [var.val for var in eqn.invars[1:] if isinstance(var, Literal)]
            stack = jax.vmap(lambda value, eqn=eqn, c=constants: eqn.primitive.bind(value, *c, **eqn.params))(stack)
        return stack


def evaluate_in_kernels(
    chosen: Sequence[Deferred], stack_of: dict[Var, Array], num_steps: Array, last: Array, by_sample: Container[Var]
) -> list[Array]:
    """Finishes all of these together, from the rows of the steps that were run.

    Of stacks in `by_sample`, whose rows are samples, those of samples whose `last` step is over need not be read.
    """
    tables: dict[tuple[Var, int], Array] = {}  # one for all who read a stack

    def columns_of(var: Var, total: int, start: int = 0, width: int | None = None) -> over_time.Columns:
        if (var, total) not in tables:
            stack = stack_of[var]
            tables[var, total] = stack.reshape(len(stack), -1, total)
        return over_time.Columns(tables[var, total], start, total if width is None else width, var in by_sample)

    def columns_of_factor(factor: Factor) -> over_time.Columns:
        assert factor.columns is not None
        return columns_of(factor.var, *factor.columns)

    products: dict[Any, tuple[over_time.Columns, over_time.Columns]] = {}
    sums: dict[Any, over_time.Columns] = {}
    keys: list[Any] = []  # several gradients may be parts of one product or sum
    for deferred in chosen:
        if deferred.product is None:
            var = deferred.factors[0].var
            columns = math.prod(shape_of(var)[deferred.summed_axes :])
            keys.append((var, columns))
            sums[keys[-1]] = columns_of(var, columns)
            continue
        factors = _in_order(deferred)
        keys.append(tuple((factor.var, factor.columns) for factor in factors))
        left, right = (columns_of_factor(factor) for factor in factors)
        products[keys[-1]] = (left, right)
        for factor, beside in zip(factors, factors[::-1], strict=True):
            if beside.has_ones:  # whose product is a sum
                assert factor.columns is not None
                sums[factor.var, factor.columns[0]] = columns_of(factor.var, factor.columns[0])
    multiplied, summed = over_time.evaluate(list(products.values()), list(sums.values()), num_steps, last)
    found = dict(zip([*products, *sums], [*multiplied, *summed], strict=True))
    gradients = []
    for deferred, key in zip(chosen, keys, strict=True):
        value, maps = found[key], deferred.maps[deferred.is_transposed :]
        if deferred.product is None:  # the axes that are summed have the length one now
            count = deferred.summed_axes
            value = value.reshape(*(1,) * count, *shape_of(deferred.factors[0].var)[count:])
        else:
            factors = _in_order(deferred)
            for axis, (beside, factor) in enumerate(zip(factors, factors[::-1], strict=True)):
                if beside.has_ones:
                    assert factor.columns is not None
                    total, start, width = factor.columns
                    of_ones = found[factor.var, total][start : start + width]
                    value = jnp.concatenate([value, jnp.expand_dims(of_ones, axis)], axis)
        gradients.append(_mapped(value, maps))
    return gradients


def _in_order(deferred: Deferred) -> tuple[Factor, ...]:
    """The factors as they are multiplied."""
    return deferred.factors[::-1] if deferred.is_transposed else deferred.factors


def _mapped(value: Array, maps: Sequence[JaxprEqn]) -> Array:
    for eqn in maps:
        value = eqn.primitive.bind(value, **eqn.params)
    return value


def evaluate(deferred: Deferred | Sum, stack_of: dict[Var, Array], known: Mapping[Deferred, Array]) -> Array:
    """Finishes one; `known` are those that kernels have finished."""
    return functools.reduce(
        operator.add, [known[term] if term in known else _evaluate(term, stack_of) for term in deferred.terms]
    )


def _evaluate(deferred: Deferred, stack_of: dict[Var, Array]) -> Array:
    factors = [factor.over_time(stack_of[factor.var]) for factor in deferred.factors]
    if deferred.product is None:
        value = factors[0].sum(0)
    else:
        left, right = factors
        value = _product_over_time(left, right, deferred.product.params)
    return _mapped(value, deferred.maps)


def _product_over_time(left: Array, right: Array, params: Mapping[str, Any]) -> Array:
    """The sum over time of the products that `params` describes for a single step."""
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
    parts = _parts(rows, math.prod(left.shape[1:]), math.prod(right.shape[1:]))
    if parts == 1:
        return lax.dot_general(left, right, dimension_numbers=(((0,), (0,)), ((), ())), **options)
    left, right = (x.reshape(parts, rows // parts, *x.shape[1:]) for x in (left, right))
    return lax.dot_general(left, right, dimension_numbers=(((1,), (1,)), ((0,), (0,))), **options).sum(0)


def _parts(rows: int, *widths: int) -> int:
    """Into how many parts a product over `rows` is cut, each of which a GPU's cores take on side by side.

    The result of such a product is small: a core for each tile of it would leave most of a GPU idle for long.
    """
    if launch.mode() is not launch.Mode.FUSED:
        return 1
    tiles = math.prod(-(-width // 128) for width in widths)
    most = min(TILES_PER_PRODUCT // max(1, tiles), rows // SHORTEST_PART)
    # Parts of other lengths than a multiple of eight rows would be copied, to fill them up.
    return max((parts for parts in range(1, most + 1) if rows % (8 * parts) == 0), default=1)
