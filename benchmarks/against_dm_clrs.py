"""Training by the settings of the first release of CLRS-30, in narkit and in dm-clrs, side by side.

    python benchmarks/against_dm_clrs.py --software narkit
    oracle/bin/python benchmarks/against_dm_clrs.py --software dm-clrs
    python benchmarks/against_dm_clrs.py --page docs/reproduction.md

The second command needs a Python that has dm-clrs (CONTRIBUTING.md). Both train on the 1,000 official samples of 16
nodes as preset `clrs2022` does, seed for seed on the same batches; weights, and which hints are forced, are drawn by
each in its own way. They add a line for every 50 steps to one file; a run that it has already is left out. The third
command writes the tables from it.

`--software "dm-clrs without the improvements"` trains dm-clrs as its first release was, where that makes a difference:
without the later improvements that narkit's networks keep (constant hints are inputs, sorts predict permutations,
encoders of scalar hints start with a smaller scale). `--software "dm-clrs from narkit's first weights"` starts dm-clrs
with the weights that narkit draws for a seed, and needs both.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import statistics
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

STORED = Path(__file__).with_suffix(".jsonl")
NARKIT, WITH, WITHOUT = "narkit", "dm-clrs", "dm-clrs without the improvements"
FROM_OURS = "dm-clrs from narkit's first weights"
TITLES = {"mpnn": "MPNN", "pgn": "PGN"}
# Whose spec or networks differ by the improvements: a constant hint, or a scalar one.
DIFFERENT_WITHOUT = ("minimum", "bellman_ford")
BEGIN = "<!-- beside dm-clrs: begin; written by benchmarks/against_dm_clrs.py: change the runs, not this -->"
END = "<!-- beside dm-clrs: end -->"
USUAL_SEEDS = 3
SHOWN = (0, 1, 3, 9)  # the places of the points that the tables have beside the last: after 50 steps, 100, 200 and 500
MANY_SPREADS = 2.0  # differences beyond so many of both spreads are told

Point = dict[str, Any]
"""A stretch of a run: `software`, `processor`, `algorithm`, `hidden_size` and `seed`; `step`, its last one; `stretch`,
its number of steps; `loss`, the mean over it; `score` of validation at its end; `versions`."""
Tell = Callable[[int, float, float], None]
"""Takes the last step of a stretch, the mean loss over it and the score at its end."""


def train_narkit(processor: str, algorithm: str, seed: int, given: argparse.Namespace, tell: Tell) -> None:
    import narkit
    from narkit.training.presets import preset

    class Telling(narkit.Callback):
        def on_point(self, trainer: Any, point: Any) -> None:
            tell(point.step, point.train_loss[0], point.scores["id"][0])

    config = preset(
        "clrs2022",
        algorithms=algorithm,
        processor=processor,
        hidden_size=given.hidden_size,
        steps=given.steps,
        seeds=(seed,),
        validate_every=given.stretch,
        test=False,
    )
    narkit.train(config, callbacks=[Telling()])


def train_dm_clrs(processor: str, algorithm: str, seed: int, given: argparse.Namespace, tell: Tell) -> None:
    import clrs  # pyright: ignore[reportMissingImports]
    import jax

    improved = given.software != WITHOUT
    model, train, validation = network_of_dm_clrs(processor, algorithm, given.hidden_size, improved)
    model.init(chosen(train, range(32)).features, seed)
    if given.software == FROM_OURS:
        import narkit
        from narkit.interop.clrs import to_haiku

        model.params = to_haiku(narkit.Reasoner([algorithm], processor, given.hidden_size, key=jax.random.key(seed)))
        model.opt_state = model.opt.init(model.params)
    keys = jax.random.split(jax.random.PRNGKey(seed), 1_000)  # of which fewer steps take the first ones
    losses: list[float] = []
    for step in range(given.steps):
        losses.append(float(model.feedback(keys[step], batch_of_step(train, seed, step))))
        if (step + 1) % given.stretch == 0 or step + 1 == given.steps:
            predictions, _ = model.predict(keys[step], validation.features)
            tell(step + 1, statistics.fmean(losses), float(clrs.evaluate(validation.outputs, predictions)["score"]))
            losses.clear()


@functools.cache
def network_of_dm_clrs(
    processor: str, algorithm: str, hidden_size: int, improved: bool, teacher_forcing: float = 0.5
) -> tuple[Any, Any, Any]:
    """A network of dm-clrs, which is compiled once for all seeds, and its two splits."""
    import clrs  # pyright: ignore[reportMissingImports]

    spec, train = official(clrs, algorithm, "train", 1, improved)
    multiplier = clrs.CLRS_30_ALGS_SETTINGS[algorithm]["num_samples_multiplier"]
    _, validation = official(clrs, algorithm, "val", multiplier, improved)
    model = clrs.models.BaselineModel(
        spec=spec,
        dummy_trajectory=chosen(train, range(32)),
        processor_factory=clrs.get_processor_factory(processor, use_ln=True, nb_triplet_fts=0, nb_heads=1),
        hidden_dim=hidden_size,
        encode_hints=True,
        decode_hints=True,
        encoder_init="xavier_on_scalars" if improved else "default",
        learning_rate=1e-3,
        grad_clip_max_norm=0.0,
        hint_teacher_forcing=teacher_forcing,
        hint_repred_mode="hard",
    )
    return model, train, validation


def official(clrs: Any, algorithm: str, split: str, multiplier: int, improved: bool) -> tuple[Any, Any]:
    """An official split of dm-clrs as one batch, and the spec that it follows."""
    about = clrs.CLRS30[split]
    sampler, spec = clrs.build_sampler(
        algorithm, num_samples=about["num_samples"] * multiplier, length=about["length"], seed=about["seed"]
    )
    batches: Iterator[Any] = iter([sampler.next()])
    if improved:
        if "pred_h" in spec and spec["pred_h"][2] == clrs.Type.POINTER:
            spec, batches = clrs.process_pred_as_input(spec, batches)
        spec, batches = clrs.process_permutations(spec, batches, True)
    return spec, next(batches)


def batch_of_step(train: Any, seed: int, step: int) -> Any:
    """The samples that `narkit.training.feed` draws for it."""
    import numpy as np

    return chosen(train, np.random.default_rng([seed, step]).integers(0, len(train.features.lengths), 32))


def chosen(batch: Any, samples: Any) -> Any:
    """Some samples of a batch of dm-clrs, whose hints have the time before the sample."""
    samples = list(samples)

    def of(probes: Sequence[Any], axis: int) -> tuple[Any, ...]:
        import copy

        found = []
        for probe in probes:
            part = copy.copy(probe)
            part.data = probe.data.take(samples, axis)
            found.append(part)
        return tuple(found)

    features = batch.features._replace(
        inputs=of(batch.features.inputs, 0), hints=of(batch.features.hints, 1), lengths=batch.features.lengths[samples]
    )
    return batch._replace(features=features, outputs=of(batch.outputs, 0))


def jobs(given: argparse.Namespace) -> Iterator[tuple[str, str, str, int]]:
    """What one software has to train: by which name, which processor on which algorithm, and the seed."""
    for algorithm in given.algorithms.split(","):
        for processor in given.processors.split(","):
            for seed in map(int, given.seeds.split(",")):
                if given.software != WITHOUT or algorithm in DIFFERENT_WITHOUT:
                    yield given.software, processor, algorithm, seed


def train(given: argparse.Namespace) -> None:
    """Trains what the file does not have yet. Lines are added on the way: a run that is stopped is not lost."""
    from importlib import metadata

    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    packages = ("narkit", "jax") if given.software == NARKIT else ("dm-clrs", "dm-haiku", "jax")
    versions = {name: metadata.version(name) for name in packages}
    for software, processor, algorithm, seed in jobs(given):
        run = {"software": software, "processor": processor, "algorithm": algorithm}
        run |= {"hidden_size": given.hidden_size, "seed": seed}

        def tell(step: int, loss: float, score: float, run: Mapping[str, Any] = run) -> None:
            start = (step - 1) // given.stretch * given.stretch
            numbers = {"step": step, "stretch": step - start, "loss": round(loss, 6), "score": round(score, 6)}
            with given.out.open("a") as file:
                file.write(json.dumps({**run, **numbers, "versions": versions}) + "\n")
            print(*run.values(), step, f"{loss:.4f} {score:.4f}", flush=True)

        if any(run.items() <= point.items() and point["step"] >= given.steps for point in read(given.out)):
            continue
        if software == NARKIT:
            train_narkit(processor, algorithm, seed, given, tell)
        else:
            train_dm_clrs(processor, algorithm, seed, given, tell)


def read(file: Path) -> list[Point]:
    """The points of a file; of a run that was begun twice those of the second time."""
    points = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    return [*{(_key(point), point["seed"], point["step"]): point for point in points}.values()]


def write(file: Path, text: str) -> None:
    part = file.with_name(f"{file.name}.part")
    part.write_text(text)
    part.replace(file)


def _key(point: Mapping[str, Any]) -> tuple[int, str, str, str]:
    return point["hidden_size"], point["processor"], point["algorithm"], point["software"]


def mean_and_spread(values: Sequence[float]) -> tuple[float, float]:
    return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else 0.0


def distance(here: Sequence[float], there: Sequence[float]) -> float:
    """How far two means are apart, in units of both spreads together."""
    (mean, spread), (other_mean, other_spread) = mean_and_spread(here), mean_and_spread(there)
    both = (spread**2 + other_spread**2) ** 0.5
    return abs(mean - other_mean) / both if both else 0.0 if mean == other_mean else float("inf")


Runs = Mapping[tuple[int, str, str, str], Mapping[int, Sequence[Point]]]
"""By width, processor, algorithm and software: by the last step of a stretch, its points, one for every seed."""


def by_run(points: Sequence[Point]) -> Runs:
    found: dict[tuple[int, str, str, str], dict[int, list[Point]]] = {}
    for point in sorted(points, key=lambda point: (_key(point), point["step"], point["seed"])):
        found.setdefault(_key(point), {}).setdefault(point["step"], []).append(point)
    return found


def table(runs: Runs, width: int, what: str) -> str:
    """A row for every software; those of dm-clrs with how far narkit's curve is away from theirs."""
    steps = sorted({step for key, run in runs.items() if key[0] == width for step in run})
    shown = sorted({*(steps[place] for place in SHOWN if place < len(steps)), steps[-1]})
    stretch = steps[0]
    titles = [f"{step - stretch + 1:,} to {step:,}" if what == "loss" else f"after {step:,}" for step in shown]
    lines = [f"| width {width} | software | {' | '.join(titles)} | farthest |"]
    lines.append(f"| --- | --- |{' ---: |' * (len(shown) + 1)}")
    for _, processor, algorithm, _ in (key for key in runs if key[0] == width and key[-1] == NARKIT):
        for software in (NARKIT, WITH, FROM_OURS, WITHOUT):
            run = runs.get((width, processor, algorithm, software))
            if run is None:
                continue
            cells = [f"{TITLES.get(processor, processor)}, {algorithm}" if software == NARKIT else "", software]
            cells += [_number(values(run.get(step, ()), what), 3 if what == "loss" else 1) for step in shown]
            # Without the improvements the loss on Minimum has a part more.
            comparable = software != NARKIT and (what, software, algorithm) != ("loss", WITHOUT, "minimum")
            far = distances(runs[width, processor, algorithm, NARKIT], run, what) if comparable else []
            lines.append(f"| {' | '.join([*cells, f'{max(far):.1f}' if far else ''])} |")
    return "\n".join(lines)


def values(points: Sequence[Point], what: str) -> list[float]:
    return [point[what] * (100 if what == "score" else 1) for point in points]


def _number(numbers: Sequence[float], digits: int) -> str:
    """A mean and its spread, of which a single number has none, and of how many seeds if it is not three."""
    if not numbers:
        return ""
    mean, spread = mean_and_spread(numbers)
    told = f"{mean:.{digits}f} ± {spread:.{digits}f}" if len(numbers) > 1 else f"{mean:.{digits}f}"
    return told if len(numbers) == USUAL_SEEDS else f"{told} ({len(numbers)})"


def distances(ours: Mapping[int, Sequence[Point]], theirs: Mapping[int, Sequence[Point]], what: str) -> list[float]:
    """The distances between two curves at the points where both have several seeds."""
    both = [step for step in ours if len(ours[step]) > 1 and len(theirs.get(step, ())) > 1]
    return [distance(values(ours[step], what), values(theirs[step], what)) for step in both]


def finding(runs: Runs) -> str:
    """In words, how many points of the curves of narkit and of dm-clrs with the improvements are far apart."""
    words = []
    for what, called in (("loss", "training losses"), ("score", "validation scores")):
        pairs = ((run, runs.get((*key[:-1], WITH), {})) for key, run in runs.items() if key[-1] == NARKIT)
        found = [distance for ours, theirs in pairs for distance in distances(ours, theirs, what)]
        words.append(f"{sum(distance > MANY_SPREADS for distance in found)} of {len(found)} {called}")
    several = f"{MANY_SPREADS:.0f} of both spreads"
    return (
        "Of the points that several seeds of both have, between narkit and dm-clrs with the improvements,\n"
        f"{' and '.join(words)} are more than {several} apart."
    )


def write_page(page: Path, points: Sequence[Point]) -> None:
    text = page.read_text()
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    if not after:
        sys.exit(f"{page}: expected the lines\n{BEGIN}\n{END}")
    write(page, before + section(points) + after)


def section(points: Sequence[Point]) -> str:
    """What stands between the two comments of the page, and the comments."""
    runs = by_run(points)
    parts = [BEGIN]
    for what, called in (("loss", "Loss of training, the mean over these steps:"), ("score", "Validation, in %:")):
        parts += [called, *(table(runs, width, what) for width in sorted({key[0] for key in runs}, reverse=True))]
    return "\n\n".join([*parts, finding(runs)]) + f"\n{END}"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--software", choices=[NARKIT, WITH, WITHOUT, FROM_OURS], help="which of them to train")
    parser.add_argument("--processors", default="mpnn,pgn", help="names, with commas between")
    parser.add_argument("--algorithms", default="bfs,minimum", help="names, with commas between")
    parser.add_argument("--hidden-size", type=int, default=128)
    parser.add_argument("--seeds", default="0,1,2", help="numbers, with commas between")
    parser.add_argument("--steps", type=int, default=1_000)
    parser.add_argument("--stretch", type=int, default=50, help="steps between two validations")
    parser.add_argument("--out", type=Path, default=STORED, help="the file that lines are added to")
    parser.add_argument("--page", type=Path, help="a page to write the table of that file into; nothing is trained")
    given = parser.parse_args(arguments)
    if given.page is not None:
        write_page(given.page, read(given.out))
    elif given.software is None:
        parser.error("expected --software narkit or dm-clrs, or --page FILE.md")
    else:
        train(given)


if __name__ == "__main__":
    if NARKIT in sys.argv:
        from narkit import compiler

        compiler.OPTIONS["cpu"] = {}  # what XLA does by itself is quicker for these processors
    main()
