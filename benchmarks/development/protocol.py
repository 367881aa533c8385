"""One development run of a library network under another protocol: `python protocol.py ALGORITHM ARM STEPS RESULTS`.

What a step reads of the step before is varied here: predicted hints soft, hard, or hard with the gradient of soft ones,
and with or without the hidden state. Seeds 100 and up, averaged weights, selected at size 32; instances of size 64 from
`benchmark_set` with seed 1000 are scored and choose nothing. A line of JSON is added to RESULTS at every validation.
"""

import argparse
import dataclasses
import functools
import json
import math
import time
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import narkit
from narkit.fused import formulas
from narkit.loops.time_loop import choose
from narkit.models import predictions, unrolling
from narkit.models.encoders import as_values
from narkit.models.feedback import Feedback
from narkit.spec import Kind
from narkit.training.config import Validation
from narkit.training.programs import Programs


@dataclasses.dataclass(frozen=True)
class Arm:
    """How hints and hidden states go from step to step."""

    hints: str = "soft"  # soft | hard | through: hard, with the gradient of soft ones | sharp: logits times `sharpness`
    sharpness: float = 2.0  # in between: hard only where the network is sure, with the gradient of soft ones
    grows: bool = False  # whether logits over nodes are sharpened by log n / log 16 besides
    noise: float = 0.0  # the standard deviation of what is added to the logits of fed-back hints in training
    gradient: float = 0.5  # factor of the gradient through hints
    forgets: bool = False  # whether a step reads zeros in place of the hidden state
    gate: float = -3.0  # where the bias of the gate starts
    forcing: float = 0.0  # how often a sample reads the true hints in training
    processor: str = "triplet_gmpnn"
    options: tuple[tuple[str, object], ...] = ()  # of the processor
    edge_pointers: str = "means"


# TEAM+ has got rid of the mean, and of reading hidden states, since the runs of `plus` and of `n`.
PLUS = Arm(processor="team_plus", options=(("mean", True), ("reads", "both")))
NO_MEAN = Arm(processor="team_plus", options=(("reads", "both"),), edge_pointers="lossless")
INPUTS = Arm(processor="team_plus", edge_pointers="lossless")
ARMS = {
    "soft": Arm(gradient=1.0),
    "damp": Arm(),
    "detach": Arm(gradient=0.0),
    "hard": Arm("hard"),
    "through": Arm("through"),
    "forget": Arm(forgets=True),
    "hard_forget": Arm("hard", forgets=True),
    "through_forget": Arm("through", forgets=True),
    "forget_open": Arm(forgets=True, gate=3.0),
    "through_forget_open": Arm("through", forgets=True, gate=3.0),
    "through_forget_open_forced": Arm("through", forgets=True, gate=3.0, forcing=0.5),
    "all_forced": Arm("hard", forgets=True, gate=3.0, forcing=1.0),
    "team_damp": Arm(processor="team"),
    "team_through": Arm("through", processor="team"),
    "plus": PLUS,
    "plus_through": dataclasses.replace(PLUS, hints="through"),
    "plus_sharp": dataclasses.replace(PLUS, hints="sharp"),
    "plus_sharp4": dataclasses.replace(PLUS, hints="sharp", sharpness=4.0),
    "plus_inputs_sharp": dataclasses.replace(PLUS, hints="sharp", options=(("mean", True),)),
    "plus_inputs_no_mean": dataclasses.replace(PLUS, options=()),
    "plus_forget": dataclasses.replace(PLUS, forgets=True, options=(("mean", True),)),
    "plus_through_forget": dataclasses.replace(PLUS, hints="through", forgets=True, options=(("mean", True),)),
    "plus_inputs": dataclasses.replace(PLUS, options=(("mean", True),)),
    "plus_no_maxima": dataclasses.replace(PLUS, options=(*PLUS.options, ("maxima", 0))),
    "plus_no_mean": dataclasses.replace(PLUS, options=(("reads", "both"),)),
    "n": NO_MEAN,
    "n_sharp": dataclasses.replace(NO_MEAN, hints="sharp", grows=True),
    "n_grows": dataclasses.replace(NO_MEAN, hints="sharp", sharpness=1.0, grows=True),
    "n_noise": dataclasses.replace(NO_MEAN, hints="noisy", noise=1.0),
    "i": INPUTS,
    "i_sharp": dataclasses.replace(INPUTS, hints="sharp", grows=True),
    "i_grows": dataclasses.replace(INPUTS, hints="sharp", sharpness=1.0, grows=True),
    "i_noise": dataclasses.replace(INPUTS, hints="noisy", noise=1.0),
    "i_sharp_noise": dataclasses.replace(INPUTS, hints="sharp", grows=True, noise=1.0),
    "plus_learnt": dataclasses.replace(PLUS, options=(*PLUS.options, ("scale", "learnt"))),
    "plus_one_direction": dataclasses.replace(
        PLUS, options=(*PLUS.options, ("both_directions", False), ("values_of_kj", False))
    ),
}


def install(arm: Arm) -> None:
    """Replaces the step of `narkit.models.unrolling` by that of an arm."""
    formulas.trust()  # the kernels do what they did; only what goes from step to step is another

    def reasoner(self, seed):
        made = make(self, seed)
        bias = made.processor.message_passing.gate.out.bias
        return eqx.tree_at(lambda r: r.processor.message_passing.gate.out.bias, made, jnp.full_like(bias, arm.gate))

    make, Programs._reasoner_of_seed = Programs._reasoner_of_seed, reasoner

    def call(self, network, data, i, carry):
        hidden, feedback = carry
        if arm.gradient != 1.0:
            feedback = unrolling.damp(arm.gradient, feedback)
        if arm.forgets:
            hidden = jnp.zeros_like(hidden)
        soften = arm.hints != "hard"
        here, logits, made = network.step(self.form.read(data.inputs, feedback), hidden, soften=soften)
        return (here.next_hidden, following(self, data, i, logits, made)), self._kept(data, i, logits), here

    def following(self, data, i, logits, made):
        predicted = of_predictions(self, data, i, logits, made)
        if arm.forcing == 0.0:
            return predicted
        hints = {name: values[i + 1] for name, values in data.hints.items()}
        true = self.form.of(data.inputs, as_values(self.form.spec, hints, self.form.num_nodes))
        return jax.tree.map(functools.partial(choose, self._forced(data, i)), true, predicted)

    def of_predictions(self, data, i, logits, made):
        if arm.noise > 0.0:
            made = Feedback()
            logits = disturbed(self.form.spec, data, i, logits)

        def revised(revise, names):
            return {name: revise(self.form.spec[name], logits[name]) for name in names}

        hard = self.form.of(data.inputs, revised(predictions.harden, logits))
        if arm.hints == "hard":
            return hard
        soft = self.form.complete(made, data.inputs, revised(predictions.soften, self.form.missing(made, logits)))
        if arm.hints in ("soft", "noisy"):
            return soft
        if arm.hints == "sharp":
            hard = self.form.of(data.inputs, revised(functools.partial(sharpened, self.form.num_nodes), logits))
        return jax.tree.map(lambda s, h: s + jax.lax.stop_gradient(h - s), soft, hard)

    def disturbed(spec, data, i, logits):
        """The logits with noise, where there is a key: in training."""
        if arm.noise == 0.0 or data.key is None:
            return logits
        keys = jax.random.split(jax.random.fold_in(data.key, i), len(logits))
        return {
            name: values
            if spec[name].kind is Kind.SCALAR
            else values + arm.noise * jax.random.normal(key, values.shape)
            for (name, values), key in zip(logits.items(), keys, strict=True)
        }

    def sharpened(num_nodes, probe, logits):
        if probe.kind is Kind.SCALAR:
            return logits
        over_nodes = probe.kind in (Kind.MASK_ONE, Kind.POINTER)
        growth = math.log(num_nodes) / math.log(16) if arm.grows and over_nodes else 1.0
        return predictions.soften(probe, growth * arm.sharpness * logits)

    unrolling.Step.__call__ = call


class Lines(narkit.Callback):
    def __init__(self, options, arm):
        self.options, self.arm, self.began = options, arm, time.time()

    def on_start(self, trainer):
        self.started = time.time()
        print(self.options.algorithm, self.options.arm, trainer.programs.acceleration, flush=True)

    def on_point(self, trainer, point):
        line = {
            "algorithm": self.options.algorithm, "arm": self.options.arm, **dataclasses.asdict(self.arm),
            "steps": self.options.steps, "seeds": list(trainer.config.seeds), **point.to_json(),
            "setup": round(self.started - self.began, 1), "seconds": round(time.time() - self.started, 1),
            "device": jax.devices()[0].device_kind, "jax": jax.__version__,
        }  # fmt: skip
        with Path(self.options.results).open("a") as file:
            file.write(json.dumps(line) + "\n")
        far, near = (np.mean(point.average_scores.get(name, [np.nan])) for name in ("far", "ood"))
        print(self.options.algorithm, self.options.arm, point.step, f"32: {near:.3f} 64: {far:.3f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("algorithm")
    parser.add_argument("arm", choices=list(ARMS))
    parser.add_argument("steps", type=int)
    parser.add_argument("results")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--points", type=int, default=4, help="how often it is validated")
    parser.add_argument("--far", type=int, default=64, help="the size of the instances that choose nothing")
    parser.add_argument("--sizes", type=int, nargs="+", default=(4, 7, 11, 13, 16))
    parser.add_argument("--threads", type=int, default=3)
    options = parser.parse_args()
    arm = ARMS[options.arm]
    install(arm)
    several = narkit.ALGORITHMS[options.algorithm].multiplier
    config = narkit.TrainConfig(
        options.algorithm, processor=arm.processor, processor_options=dict(arm.options), test=False,
        hidden_size=options.width, steps=options.steps,
        sizes=tuple(options.sizes),
        seeds=tuple(range(100, 100 + options.seeds)), validate_every=-(-options.steps // options.points),
        validations=(
            Validation("ood", min(32, options.far), 64),
            Validation("far", options.far, max(1, 64 // several), "benchmark", 1000, selects=False),
        ),
        average=0.999, skipped_steps=50, edge_pointers=arm.edge_pointers,
        teacher_forcing=arm.forcing or (1e-9 if arm.noise else 0.0),  # so that steps have a key to draw noise with
    )  # fmt: skip
    narkit.train(config, callbacks=[Lines(options, arm)], threads=options.threads)


if __name__ == "__main__":
    main()
