"""Edge pointers that are read whole, beside fused kernels. The formulas are those of `narkit.models.edge_pointers`.

What has features is in kernels: Linears of nodes, the attention, the usual logits. What is left are products over
triplets without features, which the compiler makes: of pointers with scalars, and with the attention's weights.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from narkit.fused.edge_features import EdgeFeatures
from narkit.fused.edge_product import edge_product
from narkit.fused.node_product import NodeWeights, node_product
from narkit.loops.deferred_gradients import keep_values, stack_cotangent, stack_values
from narkit.models.decoders import Decoder
from narkit.models.edge_pointers import PAIR_SIZE, Pointer, Pointers
from narkit.models.encoders import Reading
from narkit.models.features import Bases, FoldedLinear, Scalars
from narkit.models.layers import split_outputs
from narkit.models.merged_linears import ALIGNMENT, merge


class WholePointers(NamedTuple):
    """The edge pointers of a step that are read whole, and the attention through which they are followed."""

    pointers: Pointers
    attention: Float[Array, "batch node node node"] | None


def scalars_of(reading: Reading, num_node_scalars: int, whole: Sequence[str]) -> Scalars:
    """Returns the scalars of a step. Those that are pointed at are compared with others, so none of them is rounded."""
    with jax.default_matmul_precision("highest"):
        return reading.scalars(num_node_scalars, whole)


def terms_of_logits(weights: Mapping[str, Float[Array, " 3"]], pointers: Pointers) -> Pointer:
    """Returns what is added to the attention's logits, see `narkit.models.edge_pointers.attention_terms`."""
    terms = [_terms(weights[name], pointers[name]) for name in weights]
    return sum(terms[1:], terms[0])


def _views(pointer: Pointer) -> list[Pointer]:
    """Returns P_ijk, P_ikj and P_kji in the place of P_ijk."""
    return [pointer, jnp.swapaxes(pointer, -1, -2), jnp.swapaxes(pointer, -3, -1)]


@jax.custom_vjp
def _terms(weights: Float[Array, " 3"], pointer: Pointer) -> Pointer:
    straight, swapped, reverse = _views(pointer)
    return weights[0] * straight + weights[1] * swapped + weights[2] * reverse


def _terms_forward(weights: Array, pointer: Array) -> tuple[Array, tuple[Array, Array]]:
    return _terms(weights, pointer), (weights, pointer)


def _terms_backward(saved: tuple[Array, Array], d_terms: Array) -> tuple[Array, Array]:
    """Exchanges axes again, which is its own reverse. The weights' gradients are summed over samples after a loop."""
    weights, pointer = saved
    by_sample = jnp.stack([jnp.sum(view * d_terms, axis=(-3, -2, -1)) for view in _views(pointer)], axis=-1)
    return stack_values(by_sample).sum(0), _terms(weights, d_terms)


_terms.defvjp(_terms_forward, _terms_backward)


class FusedEdgePointerDecoder(eqx.Module):
    """The decoder of what is added to the usual logits of an edge pointer, made of an `EdgePointerDecoder`.

    Where edges have latents, what it reads of them is one product with what the usual logits read.
    """

    on_nodes: NodeWeights  # Q_1 and Q_2
    on_edges: FoldedLinear  # Q_3, K and K', with latents behind the Linear of the usual logits
    usual: int = eqx.field(static=True)  # how many outputs are those of the usual logits
    read: tuple[str, ...] = eqx.field(static=True)
    attends: bool = eqx.field(static=True)

    @classmethod
    def of(cls, decoder: Decoder, bases: Bases, hidden_size: int, latent_sizes: Sequence[int]) -> Any:
        """Returns None if the decoder is not that of such a pointer."""
        further = decoder.edge_pointer
        if further is None:
            return None
        sizes = (hidden_size, hidden_size)
        nodes = merge(further.query_nodes, bases.node, sizes, multiple_of=ALIGNMENT).merged
        usual = decoder.on_edges if latent_sizes else ()
        linears = [*usual, further.query_edge, *further.keys]
        edges = merge(linears, bases.edge, latent_sizes, multiple_of=ALIGNMENT).merged
        assert nodes is not None and edges is not None
        return cls(
            on_nodes=NodeWeights.beside_graph(nodes, len(bases.graph.directions)),
            on_edges=edges,
            usual=sum(linear.bias.shape[0] for linear in usual),
            read=further.read,
            attends=further.attends,
        )

    def read_edges(self, edges: EdgeFeatures) -> tuple[Float[Array, "batch node node hidden"] | None, Array]:
        """Returns what the usual logits read of edges, if it is made here, and what the others read."""
        outputs = self.on_edges.basis(edges.scalars)
        for latents, weight in zip(edges.latents, self.on_edges.dense_weights, strict=True):
            outputs = outputs + edge_product(latents, weight)
        outputs = keep_values(outputs)
        return outputs[..., : self.usual] if self.usual else None, outputs[..., self.usual :]

    def __call__(
        self,
        rows: Float[Array, "batch node scalar"],
        hiddens: tuple[Float[Array, "batch node hidden"], Float[Array, "batch node hidden"]],
        of_edges: Float[Array, "batch node node outputs"],
        whole: WholePointers,
    ) -> Float[Array, "batch node node node"]:
        """Returns what is added to the usual logits, see `narkit.models.edge_pointers`."""
        num_gates = len(self.read)
        widths = [PAIR_SIZE, PAIR_SIZE, num_gates] + ([num_gates] if self.attends else [])
        of_nodes = keep_values(stack_cotangent(node_product(rows, hiddens, self.on_nodes)))
        first, second = split_outputs(of_nodes[..., : 2 * sum(widths)], [sum(widths)] * 2)
        of_edges = of_edges[..., : sum(widths) + 2 * PAIR_SIZE]  # what is behind fills up
        third, to, from_ = split_outputs(of_edges, [sum(widths), PAIR_SIZE, PAIR_SIZE])
        query, other, keep, *follow = split_outputs(first[:, :, None] + second[:, None] + third, widths)
        pairs = jnp.einsum("bijw,bikw->bijk", query, to) + jnp.einsum("bijw,bkjw->bijk", other, from_)
        logits = PAIR_SIZE**-0.5 * pairs
        for place, name in enumerate(self.read):
            pointer = whole.pointers[name]
            logits = logits + keep[..., place, None] * pointer
            if self.attends and whole.attention is not None:
                followed = jnp.einsum("bijm,bmjk->bijk", whole.attention, pointer)
                logits = logits + follow[0][..., place, None] * followed
        return logits
