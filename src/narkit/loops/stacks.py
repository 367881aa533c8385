"""Stacks over time: arrays whose first axis is the step of a loop, written and read one row at a time."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import lax
from jax.custom_batching import custom_vmap
from jaxtyping import Array

# With rules of their own for `jax.vmap`: its rules for these two are a scatter and a gather, which check the row
# against the bounds and copy it twice.


@custom_vmap
def write_row(stack: Array, value: Array, t: Array) -> Array:
    """Returns the stack with another row t."""
    return lax.dynamic_update_index_in_dim(stack, value, t, 0)


@write_row.def_vmap
def _write_rows(size, batched, stack, value, t):
    in_stack, in_value, in_t = batched
    if in_t:
        rows = jax.vmap(lax.dynamic_update_index_in_dim, in_axes=(*(0 if b else None for b in batched), None))
        return rows(stack, value, t, 0), True
    if not in_stack:
        stack = jnp.broadcast_to(stack, (size, *stack.shape))
    if not in_value:
        value = jnp.broadcast_to(value, (size, *value.shape))
    return lax.dynamic_update_index_in_dim(stack, value, t, 1), True


@custom_vmap
def read_row(stack: Array, t: Array) -> Array:
    """Returns row t of the stack."""
    return lax.dynamic_index_in_dim(stack, t, 0, keepdims=False)


@read_row.def_vmap
def _read_rows(size, batched, stack, t):
    in_stack, in_t = batched
    if in_t:
        axes = (0 if in_stack else None, 0, None, None)
        return jax.vmap(lax.dynamic_index_in_dim, in_axes=axes)(stack, t, 0, False), True
    return lax.dynamic_index_in_dim(stack, t, 1 if in_stack else 0, keepdims=False), in_stack


@dataclass(frozen=True, eq=False)
class Row:
    """A row of a stack that has not been copied yet. Kernels read and write rows where they are."""

    stack: Array
    t: Array
    is_new: bool = False  # it has been written just now
    known: Array | None = None  # what was written, where it is at hand

    @functools.cached_property
    def value(self) -> Array:
        return read_row(self.stack, self.t) if self.known is None else self.known
