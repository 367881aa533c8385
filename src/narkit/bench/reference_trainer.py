"""Times training steps of dm-clrs, in an interpreter that has it. A script: it must not import narkit.

It reads one JSON object per line and answers each with one line. The first line it writes names its versions.

- `{"build": {"processor": .., "algorithm": .., "size": .., "batch_size": .., "hidden_size": ..}}` builds and compiles a
  network; answers with how many processor steps a training step takes, and the seconds of the first one.
- `{"run": {"processor": .., "steps": ..}}` takes training steps, each waited for; answers with their seconds.

Networks are dm-clrs's own `BaselineModel`: its encoders, decoders, losses, loop over time and Adam. The processor is
its Triplet-GMPNN, or TEAM written the obvious way in Haiku. Batches are drawn and padded as the reference trains on
them: to the longest trajectory seen so far, so that nothing is compiled twice.
"""

import sys
import time
from itertools import cycle, islice

sys.path.append(sys.path.pop(0))  # files beside this one must not hide anyone's modules
import reference_sampler  # pyright: ignore[reportMissingImports]

NUM_BATCHES = 8


def team_factory():
    """Returns TEAM (protocol steps 1 to 3) as a processor of dm-clrs."""
    import haiku as hk  # pyright: ignore[reportMissingImports]
    import jax
    import jax.numpy as jnp
    from clrs import processors  # pyright: ignore[reportMissingImports]

    class Team(processors.Processor):
        def __init__(self, size):
            super().__init__(name="team")
            self.size = size

        def __call__(self, node_fts, edge_fts, graph_fts, adj_mat, hidden, **unused):
            def linear(x, **options):
                return hk.Linear(self.size, **options)(x)

            x, e, g = node_fts, edge_fts, graph_fts
            t = (
                linear(x)[:, :, None, None]
                + linear(x)[:, None, :, None]
                + linear(x)[:, None, None, :]
                + linear(e)[:, :, :, None]
                + linear(e)[:, :, None, :]
                + linear(e)[:, None, :, :]
                + linear(g)[:, None, None, None]
            )
            logits = hk.Linear(1)(jax.nn.leaky_relu(t, 0.01))[..., 0]
            alpha = jax.nn.softmax(logits, axis=-1)
            edges = jax.nn.relu(jnp.einsum("bijk,bikh->bijh", alpha, linear(e)))

            z = jnp.concatenate([x, hidden], axis=-1)
            messages = linear(z)[:, None] + linear(z)[:, :, None] + linear(edges) + linear(g)[:, None, None]
            messages = hk.nets.MLP([self.size, self.size])(jax.nn.relu(messages)).max(axis=1)
            update = jax.nn.relu(linear(z) + linear(messages))
            update = hk.LayerNorm(axis=-1, create_scale=True, create_offset=True)(update)
            closed = linear(jax.nn.relu(linear(z) + linear(messages)), b_init=hk.initializers.Constant(-3))
            gate = jax.nn.sigmoid(closed)
            return gate * update + (1 - gate) * hidden, None

    return Team


class Network:
    """A network of dm-clrs with a few batches to train on in turn."""

    def __init__(self, clrs, numpy, processor, algorithm, size, batch_size, hidden_size):
        import jax

        if processor == "team":
            factory = team_factory()
        else:
            factory = clrs.get_processor_factory(processor, use_ln=True, nb_triplet_fts=8, nb_heads=1)
        spec, iterator = reference_sampler.stream(clrs, numpy, algorithm, size, batch_size, track_max_steps=True)
        batches = list(islice(iterator, NUM_BATCHES))
        longest = max(len(batch.features.hints[0].data) for batch in batches)
        self._batches = cycle([batch for batch in batches if len(batch.features.hints[0].data) == longest])
        self.processor_steps = max(1, longest - 1)
        self._model = clrs.models.BaselineModel(
            spec=[spec],
            dummy_trajectory=[batches[0]],
            processor_factory=factory,
            hidden_dim=hidden_size,
            encode_hints=True,
            decode_hints=True,
            encoder_init="xavier_on_scalars",
            learning_rate=1e-3,
            grad_clip_max_norm=1.0,
            hint_teacher_forcing=0.0,
            hint_repred_mode="soft",
        )
        self._model.init([batches[0].features], 0)
        self._key = jax.random.PRNGKey(0)

    def step(self):
        """Takes one training step and returns its seconds."""
        batch = next(self._batches)
        start = time.perf_counter()
        float(self._model.feedback(self._key, batch, 0))
        return time.perf_counter() - start


networks = {}


def answer(clrs, numpy, request):
    """Builds a network or takes steps with one, and says how long that took."""
    if "build" in request:
        network = Network(clrs, numpy, **request["build"])
        networks[request["build"]["processor"]] = network
        return {"first_step": network.step(), "processor_steps": network.processor_steps}
    network = networks[request["run"]["processor"]]
    return {"seconds": [network.step() for _ in range(request["run"]["steps"])]}


if __name__ == "__main__":
    reference_sampler.serve(("dm-clrs", "dm-haiku", "jax", "jaxlib"), answer)
