"""Factored features: folding all Linears in one product changes nothing."""

from typing import cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from narkit.fused.bases import FusedBasis, bind_together
from narkit.models.features import Bases, Basis, FoldedLinear, fold, join
from narkit.models.layers import Linear

HIDDEN = 6


def problem():
    keys = iter(jax.random.split(jax.random.key(0), 20))
    linear = lambda inputs, outputs: Linear(inputs, outputs, key=next(keys), bias=0.5)  # noqa: E731
    bases = Bases(
        join([linear(1, HIDDEN), linear(3, HIDDEN)], HIDDEN), join([linear(1, HIDDEN)], HIDDEN), join([], HIDDEN)
    )
    linears = [linear(HIDDEN, 4), linear(HIDDEN + 2, 7), linear(HIDDEN, 5), linear(HIDDEN, 1)]
    return bases, linears


def bind(bases: Bases, linears: list[Linear]) -> tuple[Basis, FoldedLinear, Basis, Basis, Basis]:
    first, second, third, last = linears
    through = (bases.node.through(first), fold(second, bases.edge, [2]), bases.graph.through(third))
    return *through, bases.node.through(last), bases.node


def test_one_product_equals_many():
    bases, linears = problem()
    have, want = bind_together(lambda bases: bind(bases, linears), bases), bind(bases, linears)
    assert cast(FusedBasis, have[0]).shared is None  # nothing is left of how it was made
    pairs = zip(jax.tree.leaves(have), jax.tree.leaves(want), strict=True)
    for ours, expected in pairs:
        np.testing.assert_allclose(ours, expected, rtol=1e-5, atol=1e-6)


def test_gradients_of_one_product_equal_those_of_many():
    bases, linears = problem()
    weights = jax.tree.map(lambda leaf: jnp.cos(jnp.arange(leaf.size)).reshape(leaf.shape), bind(bases, linears))

    def loss(arguments, together):
        bases, linears = arguments
        bound = bind_together(lambda bases: bind(bases, linears), bases) if together else bind(bases, linears)
        return sum(jnp.sum(a * b**2) for a, b in zip(jax.tree.leaves(weights), jax.tree.leaves(bound), strict=True))

    have, want = (jax.jit(jax.grad(loss), static_argnums=1)((bases, linears), together) for together in (True, False))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5), have, want)


def test_nothing_to_fold():
    bases, _ = problem()
    assert bind_together(lambda bases: bases.node.offset, bases) is bases.node.offset


def test_a_basis_that_was_changed_is_multiplied_on_its_own():
    bases, linears = problem()

    def double(bases: Bases) -> Basis:
        changed = eqx.tree_at(lambda basis: basis.offset, bases.node, replace_fn=lambda offset: 2 * offset)
        return changed.through(linears[0])

    have, want = bind_together(double, bases), double(bases)
    np.testing.assert_allclose(have.offset, want.offset, rtol=1e-5, atol=1e-6)
