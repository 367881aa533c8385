"""One development run: `python run.py ALGORITHM ARM STEPS SEEDS RESULTS`.

Trains an arm (see `arms.py`) on seeds 100 and up by the protocol of preset `paper`, and scores it on instances of size
64 from `benchmark_set` with seed 1000. What training selects by is a validation set of size 32; the instances of size
64 choose nothing. A line of JSON with everything is added to RESULTS.
"""

import argparse
import json
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from arms import ARMS
from jax.flatten_util import ravel_pytree
from network import Net, unroll

from narkit.algorithms import ALGORITHMS
from narkit.compiler import compiler_options
from narkit.data.splits import benchmark_set
from narkit.models import objective, predictions
from narkit.training.config import TrainConfig, Validation
from narkit.training.evaluation import EvaluationSet, validation_batch
from narkit.training.feed import Feed
from narkit.training.programs import Predicted, _restorer

BEGAN = time.time()
FIRST_SEED, TEST_SEED = 100, 1000
HORIZONS = (9, 4)  # an average over the last t / 9 steps, and over the last t / 4


class Run:
    """The compiled programs of an arm, for all seeds at once."""

    def __init__(self, options: argparse.Namespace):
        self.options = options
        self.seeds = tuple(range(FIRST_SEED, FIRST_SEED + options.seeds))
        self.optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(1e-3))
        self.restore = _restorer(eqx.filter_eval_shape(self.network, 0))
        self.spec = ALGORITHMS[options.algorithm].transformed_spec
        settings = {"donate_argnums": 0, "compiler_options": compiler_options()}
        self.jit_step = jax.jit(self.train_step, **settings)
        self.jit_predict = jax.jit(self.predict_all, compiler_options=compiler_options())
        self.programs = {}

    def network(self, seed: int) -> Net:
        return Net(self.options.algorithm, ARMS[self.options.arm], self.options.width, key=jax.random.key(seed))

    def initial_state(self):
        parameters = jnp.stack([ravel_pytree(self.network(seed))[0] for seed in self.seeds])
        averages = jnp.stack([parameters for _ in HORIZONS])
        return parameters, jax.vmap(self.optimizer.init)(parameters), averages, jnp.zeros(len(self.seeds), jnp.int32)

    def loss(self, network, batch, seed, step, num_steps):
        key = jax.random.split(jax.random.fold_in(jax.random.key(seed), step))[1]
        outputs, hints = unroll(network, batch, key=key, num_steps=num_steps)
        parts = objective.output_losses(batch, outputs) | objective.hint_losses(batch, hints)
        return sum(parts.values(), jnp.zeros(()))

    def train_step(self, state, batch):
        """One update of all seeds. A step whose gradient is not finite changes nothing and is counted."""
        parameters, optimizer, averages, skipped = state

        def update(old, before, samples, seed):
            value, gradient = jax.value_and_grad(self.loss)(
                self.restore(old), samples, seed, batch.step, batch.num_steps
            )
            gradient = jax.lax.optimization_barrier(ravel_pytree(gradient)[0])
            change, after = self.optimizer.update(gradient, before, old)
            finite = jnp.isfinite(value) & jnp.isfinite(gradient).all()
            kept = jax.tree.map(lambda new, was: jnp.where(finite, new, was), (old + change, after), (old, before))
            return *kept, value, finite, jnp.linalg.norm(gradient)

        seeds = jnp.asarray(self.seeds, jnp.uint32)
        parameters, optimizer, losses, finite, norms = jax.vmap(update)(parameters, optimizer, batch.unpack(), seeds)
        t = batch.step.astype(jnp.float32)
        decays = [jnp.minimum(0.999, (1 + t) / (1 + horizon + t)) for horizon in HORIZONS]
        averages = jnp.stack([d * old + (1 - d) * parameters for d, old in zip(decays, averages, strict=True)])
        return (parameters, optimizer, averages, skipped + (~finite).astype(jnp.int32)), (losses, norms)

    def predict_all(self, parameters, batch):
        num_steps = jnp.maximum(1, batch.lengths.max() - 1)

        def one(row):
            logits, _ = unroll(self.restore(row), batch, keep_hints=False, num_steps=num_steps)
            cost = sum(objective.output_losses(batch, logits).values(), jnp.zeros(()))
            return predictions.decode_outputs(self.spec, logits), cost

        return jax.vmap(one)(parameters)

    def compile(self, state, batches, parts) -> None:
        shapes = jax.eval_shape(lambda: state)
        jobs = [lambda packed=packed: self.step_program(shapes, packed) for packed in batches]
        jobs += [lambda part=part: self.prediction_program(shapes[0], part) for part in parts]
        with ThreadPoolExecutor(4) as pool:
            for done in [pool.submit(job) for job in jobs]:
                done.result()

    def step_program(self, state, packed):
        key = (packed.layout.num_nodes, packed.layout.num_rows, packed.words.shape)
        if key not in self.programs:
            self.programs[key] = self.jit_step.lower(state, packed).compile()
        return self.programs[key]

    def prediction_program(self, parameters, part):
        key = ("prediction", len(part.lengths), part.num_nodes)
        if key not in self.programs:
            self.programs[key] = self.jit_predict.lower(parameters, part).compile()
        return self.programs[key]

    def predict(self, parameters, part, with_hints) -> Predicted:
        """As `narkit.training.evaluation` asks for it."""
        outputs, losses = self.prediction_program(parameters, part)(parameters, part)
        return Predicted({name: np.asarray(values) for name, values in outputs.items()}, np.asarray(losses), {})

    def scores(self, instances: EvaluationSet, parameters) -> tuple[np.ndarray, np.ndarray]:
        rows = instances.scores(self, parameters)
        return np.array([row.outputs["score"] for row in rows]), np.array([row.loss for row in rows])


class Best:
    """The best checkpoint of every seed on the validation set; of equal ones that with the lower loss."""

    def __init__(self, parameters):
        self.parameters = np.array(parameters)
        self.score, self.loss = np.full(len(parameters), -1.0), np.full(len(parameters), np.inf)

    def take(self, parameters, score, loss) -> None:
        better = (score > self.score) | ((score == self.score) & (loss <= self.loss))
        self.parameters[better] = np.array(parameters)[better]
        self.score[better], self.loss[better] = score[better], loss[better]


def main() -> None:
    options = parse()
    run, name = Run(options), options.algorithm
    config = TrainConfig(
        (name,), processor="mpnn", seeds=run.seeds, steps=options.steps, sizes=options.sizes, test=False,
        validations=(Validation("ood", options.validation_size, 64),),
    )  # fmt: skip
    feed = Feed(config)
    feed.measure(options.steps, 2)
    validation = EvaluationSet.of(validation_batch(name, config.validations[0]), 64, keep=True)
    num_samples = max(64, 32 * min(ALGORITHMS[name].multiplier, 8))
    test = EvaluationSet.of(benchmark_set(name, options.test_size, num_samples, TEST_SEED), 32)
    state = run.initial_state()
    examples = [batch.packed for batch in reversed(feed.examples())]
    run.compile(state, examples, [validation.kept_parts[0], next(test.parts())])

    best = {"raw": Best(state[0]), "average": Best(state[0])}
    curve, losses, norms, in_flight = [], [], [], deque()
    ready, done = time.time(), 0
    with feed.ahead(0, 8, 2) as batches:
        while done < options.steps and time.time() - BEGAN < options.seconds:
            packed = next(batches).packed
            state, told = run.step_program(state, packed)(state, packed)
            in_flight.append(told)
            done += 1
            while len(in_flight) > (0 if done % options.every == 0 or done == options.steps else 4):
                loss, norm = (np.asarray(part) for part in in_flight.popleft())
                losses.append(loss)
                norms.append(norm)
            if done % options.every == 0 or done == options.steps:
                point = {"step": done, "loss": np.mean(losses[-options.every :], 0).round(4).tolist()}
                for kind, parameters in {"raw": state[0], "average": state[2][0]}.items():
                    score, cost = run.scores(validation, parameters)
                    best[kind].take(parameters, score, cost)
                    point[kind] = score.round(4).tolist()
                curve.append(point)
    trained = time.time()
    chosen = {f"sel_{kind}": jnp.asarray(kept.parameters) for kind, kept in best.items()}
    chosen |= {f"last_a{horizon}": state[2][i] for i, horizon in enumerate(HORIZONS)}
    at_64 = {kind: (100 * run.scores(test, parameters)[0]).round(2).tolist() for kind, parameters in chosen.items()}
    norms = np.where(np.isfinite(norms), norms, np.finfo(np.float32).max)
    line = {
        "algorithm": name, "arm": options.arm, "steps": done, "seeds": list(run.seeds), "width": options.width,
        "parameters": int(state[0].shape[1]), "skipped": np.asarray(state[3]).tolist(),
        "gradient_norm": {"median": float(np.median(norms)), "largest": float(np.max(norms))},
        "seconds": {"setup": round(ready - BEGAN, 1), "training": round(trained - ready, 1)},
        "test_size": options.test_size, "test_seed": TEST_SEED, "score": at_64, "jax": jax.__version__,
        "device": jax.devices()[0].device_kind, "curve": curve,
    }  # fmt: skip
    with Path(options.results).open("a") as file:
        file.write(json.dumps(line) + "\n")
    print(
        name, options.arm, done, {kind: round(float(np.mean(values)), 1) for kind, values in at_64.items()}, flush=True
    )


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("algorithm", choices=list(ALGORITHMS))
    parser.add_argument("arm", choices=list(ARMS))
    parser.add_argument("steps", type=int)
    parser.add_argument("seeds", type=int, help="how many, from 100 on")
    parser.add_argument("results", help="a file of JSON lines to add to")
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--every", type=int, default=250, help="steps between validations")
    parser.add_argument("--sizes", type=int, nargs="+", default=(4, 7, 11, 13, 16))
    parser.add_argument("--validation-size", type=int, default=32)
    parser.add_argument("--test-size", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="train no longer than this")
    return parser.parse_args()


if __name__ == "__main__":
    main()
