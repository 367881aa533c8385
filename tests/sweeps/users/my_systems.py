"""What a user's own module may look like: a processor, a preset, and two systems."""

import equinox as eqx
import jax
from jaxtyping import Array, Bool, Float, PRNGKeyArray

import narkit
from narkit.models.layers import Linear
from narkit.training.presets import PRESETS


class Averaging(narkit.DenseProcessor):
    """Nodes take over the mean of their neighbours' features, scaled."""

    mix: Linear
    scale: float = eqx.field(static=True)
    latent_size: int = eqx.field(static=True, default=0)

    def __init__(self, hidden_size: int, scale: float = 1.0, *, key: PRNGKeyArray):
        self.mix = Linear(2 * hidden_size, hidden_size, key=key)
        self.scale = scale

    def process(
        self,
        nodes: Float[Array, "node hidden"],
        edges: Float[Array, "node node hidden"],
        graph: Float[Array, " hidden"],
        adjacency: Bool[Array, "node node"],
        hidden: Float[Array, "node hidden"],
    ) -> Float[Array, "node hidden"]:
        inputs = jax.numpy.concatenate([nodes, hidden], axis=-1)
        return jax.nn.relu(self.scale * self.mix(inputs) + edges.mean(0))


PRESETS["tiny"] = {
    "hidden_size": 8,
    "steps": 2,
    "batch_size": 2,
    "sizes": (4,),
    "validate_every": 2,
    "validations": (narkit.Validation("id", 4, 2), narkit.Validation("ood", 5, 2)),
}

narkit.PROCESSORS["averaging"] = Averaging
narkit.SYSTEMS.add(narkit.System("averaging", "Averaging", "averaging", preset="tiny", seeds=2))
narkit.SYSTEMS.add(narkit.System("averaging_half", "Averaging, halved", "averaging", {"scale": 0.5}, "tiny", seeds=2))
