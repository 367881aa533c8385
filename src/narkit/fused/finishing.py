"""How the gradients of weights are finished after a loop over time, by the kernels of `over_time`.

All that fit are made together, from the rows of the steps that were run. This module says which fit: products of two
tables of columns whose rows are all summed over, and sums over rows.
"""

from __future__ import annotations

import math
from collections.abc import Container, Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.core import Literal, Var
from jaxtyping import Array

from narkit.fused import over_time
from narkit.loops.deferred_products import PARTS, Deferred, Factor, apply_maps
from narkit.loops.traced_program import aval_of, shape_of

DEFAULT_PRECISIONS = (None, lax.Precision.DEFAULT, (lax.Precision.DEFAULT, lax.Precision.DEFAULT))


def fits(deferred: Deferred) -> bool:
    """Returns whether the kernels for products and sums over time can finish it."""
    if deferred.product is None:
        return _summed_axes(deferred) > 0
    left, right = deferred.factors
    columns = (_columns(left), _columns(right))
    params = deferred.product.params
    (left_axes, right_axes), (batched, _) = params["dimension_numbers"]
    return (
        None not in columns
        and (not _has_ones(left) or _can_be_summed(right))
        and (not _has_ones(right) or _can_be_summed(left))
        and aval_of(left.var).dtype == aval_of(right.var).dtype
        and aval_of(deferred.product.outvars[0]).dtype == jnp.float32
        and params["precision"] in DEFAULT_PRECISIONS
        and left_axes == right_axes
        and not batched
        and all(set(left_axes) == set(range(len(shape_of(var)) - 1)) for var in deferred.product.invars)
    )


def _is_transposed(deferred: Deferred) -> bool:
    """Returns whether the product is transposed before anything else. A kernel makes it so at once."""
    return deferred.product is not None and bool(deferred.maps) and deferred.maps[0].primitive.name == "transpose"


def _summed_axes(deferred: Deferred) -> int:
    """Returns how many of the first axes of a single step are summed, where a kernel can do so; else 0."""
    value = aval_of(deferred.factors[0].var)
    if not deferred.maps or deferred.maps[0].primitive.name != "reduce_sum" or value.dtype != jnp.float32:
        return 0
    axes = deferred.maps[0].params["axes"]
    count = next((axis for axis in range(value.ndim) if axis not in axes), value.ndim)
    return count if math.prod(value.shape[count:]) % 4 == 0 and value.size else 0


def _columns(factor: Factor) -> tuple[int, int, int] | None:
    """Returns a factor as a part of a table whose rows run along the last axis: all columns, its first, their number.

    A column of ones is left out. The result is None if kernels cannot read the factor.
    """
    value = aval_of(factor.var)
    if not value.size or not value.ndim:
        return None
    start, total = 0, value.shape[-1]
    width = total
    for eqn in factor.maps[: len(factor.maps) - _has_ones(factor)]:
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


def _has_ones(factor: Factor) -> bool:
    """Returns whether a last column of ones stands beside the others."""
    if not factor.maps or factor.maps[-1].primitive.name != "pad":
        return False
    *others, on_columns = factor.maps[-1].params["padding_config"]
    filled = factor.maps[-1].invars[1]
    is_one = isinstance(filled, Literal) and bool(np.asarray(filled.val) == 1)
    return is_one and on_columns == (0, 1, 0) and all(padding == (0, 0, 0) for padding in others)


def _can_be_summed(factor: Factor) -> bool:
    """Returns whether the kernels can also sum it over all rows."""
    value, columns = aval_of(factor.var), _columns(factor)
    return columns is not None and columns[0] % 4 == 0 and value.dtype == jnp.float32 and not _has_ones(factor)


def finish(
    chosen: Sequence[Deferred], stack_of: Mapping[Var, Array], num_steps: Array, last: Array, by_sample: Container[Var]
) -> list[Array]:
    """Finishes all of these together, from the rows of the steps that were run.

    In stacks of `by_sample`, whose rows are samples, samples whose `last` step is over need not be read.
    """
    tables: dict[tuple[Var, int], Array] = {}  # one for all who read a stack

    def columns_of(var: Var, total: int, start: int = 0, width: int | None = None) -> over_time.Columns:
        if (var, total) not in tables:
            stack = stack_of[var]
            tables[var, total] = stack.reshape(len(stack), -1, total)
        return over_time.Columns(tables[var, total], start, total if width is None else width, var in by_sample)

    products: dict[Any, tuple[over_time.Columns, over_time.Columns]] = {}
    sums: dict[Any, over_time.Columns] = {}
    keys: list[Any] = []  # several gradients may be parts of one product or sum
    for deferred in chosen:
        if deferred.product is None:
            var = deferred.factors[0].var
            columns = math.prod(shape_of(var)[_summed_axes(deferred) :])
            keys.append((var, columns))
            sums[keys[-1]] = columns_of(var, columns)
            continue
        factors = _in_order(deferred)
        keys.append(tuple((factor.var, _columns(factor)) for factor in factors))
        left, right = (columns_of(factor.var, *_known_columns(factor)) for factor in factors)
        products[keys[-1]] = (left, right)
        for factor, beside in zip(factors, factors[::-1], strict=True):
            if _has_ones(beside):  # whose product is a sum
                total, *_ = _known_columns(factor)
                sums[factor.var, total] = columns_of(factor.var, total)
    multiplied, summed = over_time.evaluate(list(products.values()), list(sums.values()), num_steps, last)
    found = dict(zip([*products, *sums], [*multiplied, *summed], strict=True))
    gradients = []
    for deferred, key in zip(chosen, keys, strict=True):
        value, maps = found[key], deferred.maps[_is_transposed(deferred) :]
        if deferred.product is None:  # the axes that are summed have the length one now
            count = _summed_axes(deferred)
            value = value.reshape(*(1,) * count, *shape_of(deferred.factors[0].var)[count:])
        else:
            factors = _in_order(deferred)
            for axis, (beside, factor) in enumerate(zip(factors, factors[::-1], strict=True)):
                if _has_ones(beside):
                    total, start, width = _known_columns(factor)
                    of_ones = found[factor.var, total][start : start + width]
                    value = jnp.concatenate([value, jnp.expand_dims(of_ones, axis)], axis)
        gradients.append(apply_maps(value, maps))
    return gradients


def _in_order(deferred: Deferred) -> tuple[Factor, ...]:
    """Returns the factors in the order in which they are multiplied."""
    return deferred.factors[::-1] if _is_transposed(deferred) else deferred.factors


def _known_columns(factor: Factor) -> tuple[int, int, int]:
    columns = _columns(factor)
    assert columns is not None, "a factor that the kernels cannot read"
    return columns
