"""Writes models.npz: batches, parameters and what dm-clrs's networks make of them.

Run it with a Python that has dm-clrs; it takes some minutes:

    python tests/golden/make_model_golden.py

Triplet-GMPNN runs on all thirty algorithms, MPNN and PGN on one algorithm of each category. Every parameter is drawn
at random, biases too: fresh ones are zero and would hide mistakes. They are multiples of 1/64, which keeps the file
small. Sinkhorn's noise is switched off, so that logits can be compared; all else is what dm-clrs does in training.

The file holds one flat array per type and, in `index`, JSON that says where each array lies. It carries dm-clrs's
version and this script's digest. `tests/oracle/test_models.py` uses `reference_case` for live comparisons.
"""

import hashlib
import json
import logging
import os
from importlib import metadata
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import clrs  # pyright: ignore[reportMissingImports]
import jax
import numpy as np
from clrs._src import baselines, decoders, processors, samplers  # pyright: ignore[reportMissingImports]

TARGET = Path(__file__).with_name("models.npz")
HIDDEN_SIZE = 8
NUM_NODES = 4
BATCH_SIZE = 2
PARAMETER_STEP = 1 / 64
# One algorithm of each category; together they have every kind of probe.
ONE_OF_EACH_CATEGORY = (
    "find_maximum_subarray_kadane",
    "lcs_length",
    "graham_scan",
    "floyd_warshall",
    "activity_selector",
    "minimum",
    "heapsort",
    "naive_string_matcher",
)
# The protocol turns their constant predecessor hint into an input.
PREDECESSORS_AS_INPUT = (
    "binary_search",
    "minimum",
    "find_maximum_subarray_kadane",
    "matrix_chain_order",
    "lcs_length",
    "optimal_bst",
    "activity_selector",
    "task_scheduling",
    "naive_string_matcher",
    "kmp_matcher",
    "jarvis_march",
)


class Store:
    """Arrays of any shape in one flat array per type, each in the smallest type that keeps every value."""

    def __init__(self):
        self.parts = {"int8": [], "float32": []}
        self.used = dict.fromkeys(self.parts, 0)

    def add(self, values, unit=1.0):
        """Where the values, which are `unit` times what is stored, will lie."""
        values = np.asarray(values, np.float32)
        stored = values / np.float32(unit)
        with np.errstate(invalid="ignore"):
            kind = next(kind for kind in self.parts if np.array_equal(stored.astype(kind), stored))
        offset = self.used[kind]
        self.parts[kind].append(stored.astype(kind).ravel())
        self.used[kind] += values.size
        return [kind, offset, list(values.shape), unit]

    def arrays(self):
        return {kind: np.concatenate(parts) for kind, parts in self.parts.items()}


def without_noise():
    """dm-clrs adds Gumbel noise to permutation logits in training, drawn in its own way: it is left out."""
    noisy = decoders.log_sinkhorn

    def log_sinkhorn(x, steps, temperature, zero_diagonal, noise_rng_key):
        del noise_rng_key
        return noisy(x, steps, temperature, zero_diagonal, None)

    decoders.log_sinkhorn = log_sinkhorn


def feedback(name, num_nodes, batch_size, seed):
    """A transformed batch and the spec that it follows."""
    options = {"length": num_nodes}
    if name in ("naive_string_matcher", "kmp_matcher"):
        options = {"length": num_nodes + 2, "length_needle": 2}
    sampler, spec = samplers.build_sampler(name, batch_size, seed=seed, **options)
    batches = iter(lambda: sampler.next(batch_size), None)
    batches = samplers.process_random_pos(batches, np.random.RandomState(seed))
    if name in PREDECESSORS_AS_INPUT:
        spec, batches = samplers.process_pred_as_input(spec, batches)
    spec, batches = samplers.process_permutations(spec, batches, True)
    return spec, next(batches)


def random_parameters(skeleton, rng):
    """Parameters about as large as trained ones, none of them zero on purpose."""
    parameters = {}
    for module in sorted(skeleton):
        parameters[module] = {}
        for name, values in sorted(skeleton[module].items()):
            spread = min(0.5, 1.2 / np.sqrt(values.shape[0])) if name == "w" else 0.3
            drawn = (1.0 if name == "scale" else 0.0) + spread * rng.standard_normal(values.shape)
            steps = np.clip(np.round(drawn / PARAMETER_STEP), -127, 127)
            parameters[module][name] = (steps * PARAMETER_STEP).astype(np.float32)
    return parameters


def reference_case(name, processor, hidden_size, num_nodes, batch_size, seed):
    """What dm-clrs computes: a dictionary of nested dictionaries of arrays."""
    spec, batch = feedback(name, num_nodes, batch_size, seed)
    factory = processors.get_processor_factory(processor, use_ln=True, nb_triplet_fts=8, nb_heads=1)
    model = baselines.BaselineModel(
        spec=[spec],
        dummy_trajectory=[batch],
        processor_factory=factory,
        hidden_dim=hidden_size,
        encode_hints=True,
        encoder_init="xavier_on_scalars",
    )
    key = jax.random.PRNGKey(0)
    calls = {"algorithm_index": -1, "return_hints": False, "return_all_outputs": False}
    skeleton = jax.eval_shape(lambda: model.net_fn.init(key, [batch.features], True, **calls))
    parameters = random_parameters(skeleton, np.random.default_rng(seed))

    @jax.jit
    def run(parameters):
        loss, gradient = model._compute_grad(parameters, key, batch, 0)
        calls = {"algorithm_index": 0, "return_hints": True, "return_all_outputs": False}
        outputs, hints = model.net_fn.apply(parameters, key, [batch.features], repred=True, **calls)
        return loss, gradient, outputs, {name: jax.numpy.stack([step[name] for step in hints]) for name in hints[0]}

    loss, gradient, outputs, hints = run(parameters)
    decoded = decoders.postprocess(spec, outputs, sinkhorn_temperature=0.1, sinkhorn_steps=50, hard=True)
    features = batch.features
    return {
        "inputs": {point.name: point.data for point in features.inputs},
        "hints": {point.name: point.data for point in features.hints},
        "outputs": {point.name: point.data for point in batch.outputs},
        "lengths": features.lengths,
        "parameters": parameters,
        "output logits": outputs,
        "hint logits": hints,
        "loss": loss,
        "gradient": gradient,
        "score": clrs.evaluate(batch.outputs, decoded)["score"],
    }


def place(store, values, unit=1.0):
    """The same nested dictionaries with the places of the arrays in the store."""
    if isinstance(values, dict):
        return {
            name: place(store, part, PARAMETER_STEP if name == "parameters" else unit) for name, part in values.items()
        }
    return store.add(values, unit)


def main():
    logging.getLogger("absl").setLevel(logging.ERROR)
    without_noise()
    names = list(clrs.CLRS_30_ALGS_SETTINGS)
    wanted = [("triplet_gmpnn", name) for name in names]
    wanted += [(processor, name) for processor in ("mpnn", "pgn") for name in ONE_OF_EACH_CATEGORY]
    store = Store()
    cases = []
    for processor, name in wanted:
        case = reference_case(name, processor, HIDDEN_SIZE, NUM_NODES, BATCH_SIZE, seed=names.index(name))
        cases.append({"algorithm": name, "processor": processor, **place(store, case)})
        print(processor, name, flush=True)
    made_by = {
        "dm-clrs": metadata.version("dm-clrs"),
        "script": hashlib.sha256(Path(__file__).read_bytes()).hexdigest(),
    }
    index = json.dumps({"made by": made_by, "cases": cases}, separators=(",", ":"))
    arrays = {"index": np.frombuffer(index.encode(), np.uint8), **store.arrays()}
    np.savez_compressed(TARGET, **arrays)  # pyright: ignore[reportArgumentType]


if __name__ == "__main__":
    main()
