"""Training by the settings of the first release of CLRS-30, in narkit and in dm-clrs, side by side.

    python benchmarks/against_dm_clrs.py --software narkit
    oracle/bin/python benchmarks/against_dm_clrs.py --software dm-clrs
    python benchmarks/against_dm_clrs.py --page docs/reproduction.md

The second command needs a Python that has dm-clrs (CONTRIBUTING.md) and imports nothing of narkit. Both train on the
1,000 official samples of 16 nodes as preset `clrs2022` does, seed for seed on the same batches; weights, and which
hints are forced, are drawn by each in its own way. They add their runs to one JSON file; a run that it has already is
left out. The third command writes the table from it.

dm-clrs is trained twice where that makes a difference: with the later improvements that narkit's networks keep
(constant hints are inputs, sorts predict permutations, encoders of scalar hints start with a smaller scale), and
without them, as the first release was.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

STORED = Path(__file__).with_suffix(".json")
NARKIT, WITH, WITHOUT = "narkit", "dm-clrs", "dm-clrs without the improvements"
TITLES = {"mpnn": "MPNN", "pgn": "PGN"}
# Whose spec or networks differ by the improvements: a constant hint, or a scalar one.
DIFFERENT_WITHOUT = ("minimum", "bellman_ford")
BEGIN = "<!-- beside dm-clrs: begin; written by benchmarks/against_dm_clrs.py: change the runs, not this -->"
END = "<!-- beside dm-clrs: end -->"
MANY_SPREADS = 2.0  # differences beyond so many of both spreads are told
SETTINGS = ("hidden_size", "seeds", "steps", "validate_every")  # the same for all runs of a file

Curve = dict[str, list[list[float]]]
"""`losses` of training, the mean over every stretch of steps, and `scores` of validation at its end; both by seed."""


def train_narkit(processor: str, algorithm: str, given: argparse.Namespace) -> Curve:
    import narkit
    from narkit.training.presets import preset

    config = preset(
        "clrs2022",
        algorithms=algorithm,
        processor=processor,
        hidden_size=given.hidden_size,
        steps=given.steps,
        seeds=tuple(range(given.seeds)),
        validate_every=given.validate_every,
        test=False,
    )
    curve = narkit.train(config).curve
    losses, scores = [point.train_loss for point in curve], [point.scores["id"] for point in curve]
    return {"losses": _by_seed(losses), "scores": _by_seed(scores)}


def train_dm_clrs(processor: str, algorithm: str, given: argparse.Namespace, improved: bool) -> Curve:
    import clrs  # pyright: ignore[reportMissingImports]
    import jax
    import numpy as np

    spec, train = official(clrs, algorithm, "train", 1, improved)
    multiplier = clrs.CLRS_30_ALGS_SETTINGS[algorithm]["num_samples_multiplier"]
    _, validation = official(clrs, algorithm, "val", multiplier, improved)
    model = clrs.models.BaselineModel(
        spec=spec,
        dummy_trajectory=chosen(train, range(32)),
        processor_factory=clrs.get_processor_factory(processor, use_ln=True, nb_triplet_fts=0, nb_heads=1),
        hidden_dim=given.hidden_size,
        encode_hints=True,
        decode_hints=True,
        encoder_init="xavier_on_scalars" if improved else "default",
        learning_rate=1e-3,
        grad_clip_max_norm=0.0,
        hint_teacher_forcing=0.5,
        hint_repred_mode="hard",
    )
    curve: Curve = {"losses": [], "scores": []}
    for seed in range(given.seeds):
        model.init(chosen(train, range(32)).features, seed)
        keys = jax.random.split(jax.random.PRNGKey(seed), given.steps)
        losses: list[float] = []
        curve["losses"].append([])
        curve["scores"].append([])
        for step in range(given.steps):
            # As `narkit.training.feed` draws them.
            batch = chosen(train, np.random.default_rng([seed, step]).integers(0, len(train.features.lengths), 32))
            losses.append(float(model.feedback(keys[step], batch)))
            if (step + 1) % given.validate_every == 0 or step + 1 == given.steps:
                predictions, _ = model.predict(keys[step], validation.features)
                curve["losses"][-1].append(statistics.fmean(losses))
                curve["scores"][-1].append(float(clrs.evaluate(validation.outputs, predictions)["score"]))
                losses.clear()
                print(processor, algorithm, "seed", seed, "step", step + 1, curve["losses"][-1][-1], flush=True)
    return curve


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


def _by_seed(points: Sequence[Sequence[float]]) -> list[list[float]]:
    return [list(values) for values in zip(*points, strict=True)]


def jobs(given: argparse.Namespace) -> Iterator[tuple[str, str, str, Callable[[], Curve]]]:
    """What one software has to train: by which name, which processor on which algorithm, and how."""
    for algorithm in given.algorithms.split(","):
        for processor in given.processors.split(","):
            if given.software == NARKIT:
                yield NARKIT, processor, algorithm, lambda p=processor, a=algorithm: train_narkit(p, a, given)
                continue
            yield WITH, processor, algorithm, lambda p=processor, a=algorithm: train_dm_clrs(p, a, given, True)
            if algorithm in DIFFERENT_WITHOUT:
                yield (
                    *(WITHOUT, processor, algorithm),
                    lambda p=processor, a=algorithm: train_dm_clrs(p, a, given, False),
                )


def train(given: argparse.Namespace) -> None:
    """Trains what the file does not have yet, and adds it run by run."""
    from importlib import metadata

    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    settings = {name: getattr(given, name) for name in SETTINGS}
    if any(each[name] != value for each in read(given.out)["runs"] for name, value in settings.items()):
        sys.exit(f"{given.out}: expected runs with {settings}, got others; give another --out")
    for software, processor, algorithm, run in jobs(given):
        stored = read(given.out)
        if any(_key(each) == (software, processor, algorithm) for each in stored["runs"]):
            continue
        began = time.monotonic()
        curve = run()
        packages = ("narkit",) if software == NARKIT else ("dm-clrs", "dm-haiku")
        made = {
            "software": software,
            "processor": processor,
            "algorithm": algorithm,
            **settings,
            "minutes": round((time.monotonic() - began) / 60, 1),
            "versions": {name: metadata.version(name) for name in (*packages, "jax")},
            **{what: [[round(value, 6) for value in seed] for seed in seeds] for what, seeds in curve.items()},
        }
        stored = read(given.out)  # the other software may have added to it
        write(given.out, json.dumps({"runs": [*stored["runs"], made]}, indent=1) + "\n")
        print(software, processor, algorithm, made["minutes"], "minutes", flush=True)


def read(file: Path) -> dict[str, list[dict[str, Any]]]:
    return json.loads(file.read_text()) if file.exists() else {"runs": []}


def write(file: Path, text: str) -> None:
    part = file.with_name(f"{file.name}.part")
    part.write_text(text)
    part.replace(file)


def _key(run: Mapping[str, Any]) -> tuple[str, str, str]:
    return run["software"], run["processor"], run["algorithm"]


def mean_and_spread(values: Sequence[float]) -> tuple[float, float]:
    return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else 0.0


def distance(here: Sequence[float], there: Sequence[float]) -> float:
    """How far two means are apart, in units of both spreads together."""
    (mean, spread), (other_mean, other_spread) = mean_and_spread(here), mean_and_spread(there)
    both = (spread**2 + other_spread**2) ** 0.5
    return abs(mean - other_mean) / both if both else 0.0 if mean == other_mean else float("inf")


def table(stored: Mapping[str, Any]) -> str:
    """A row for every run; those of dm-clrs with how far narkit's is away from it."""
    runs = {_key(run): run for run in stored["runs"]}
    of_narkit = [run for run in stored["runs"] if run["software"] == NARKIT]
    first, last = of_narkit[0]["validate_every"], of_narkit[0]["steps"]
    lines = [
        f"| | software | loss, steps 1 to {first:,} | loss, the last {first:,} of {last:,} | farthest | "
        "validation at the end | farthest |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for ours in of_narkit:
        _, processor, algorithm = _key(ours)
        for software in (NARKIT, WITH, WITHOUT):
            run = runs.get((software, processor, algorithm))
            if run is None:
                continue
            losses, scores = _by_seed(run["losses"]), _by_seed(run["scores"])
            cells = [f"{TITLES.get(processor, processor)}, {algorithm}" if run is ours else "", software]
            cells += [_number(losses[0], 3), _number(losses[-1], 3), _farthest(ours, run, "losses")]
            cells += [_number([100 * score for score in scores[-1]], 1), _farthest(ours, run, "scores")]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _number(values: Sequence[float], digits: int) -> str:
    mean, spread = mean_and_spread(values)
    return f"{mean:.{digits}f} ± {spread:.{digits}f}"


def _farthest(ours: Mapping[str, Any], run: Mapping[str, Any], what: str) -> str:
    """The largest distance at any point of the two curves. Without the improvements a loss has other parts."""
    if run is ours or (what == "losses" and run["software"] == WITHOUT and ours["algorithm"] == "minimum"):
        return ""
    return f"{max(distances(ours, run, what)):.1f}"


def distances(ours: Mapping[str, Any], run: Mapping[str, Any], what: str) -> list[float]:
    """The distances between two curves, point by point."""
    return [distance(here, there) for here, there in zip(_by_seed(ours[what]), _by_seed(run[what]), strict=True)]


def finding(stored: Mapping[str, Any]) -> str:
    """In words, how many points of the curves of narkit and of dm-clrs with the improvements are far apart."""
    runs = {_key(run): run for run in stored["runs"]}
    words = []
    for what, called in (("losses", "training losses"), ("scores", "validation scores")):
        found = [
            distance
            for run in stored["runs"]
            if run["software"] == NARKIT and (WITH, *_key(run)[1:]) in runs
            for distance in distances(run, runs[WITH, *_key(run)[1:]], what)
        ]
        far = sum(distance > MANY_SPREADS for distance in found)
        words.append(f"{far} of {len(found)} {called}")
    several = f"{MANY_SPREADS:.0f} of both spreads"
    return f"Between narkit and dm-clrs with the improvements, {' and '.join(words)} are more than {several} apart."


def write_page(page: Path, stored: Mapping[str, Any]) -> None:
    text = page.read_text()
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    if not after:
        sys.exit(f"{page}: expected the lines\n{BEGIN}\n{END}")
    write(page, before + section(stored) + after)


def section(stored: Mapping[str, Any]) -> str:
    """What stands between the two comments of the page, and the comments."""
    return f"{BEGIN}\n{table(stored)}\n\n{finding(stored)}\n{END}"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--software", choices=[NARKIT, WITH], help="which of the two this Python has to train")
    parser.add_argument("--processors", default="mpnn,pgn", help="names, with commas between")
    parser.add_argument("--algorithms", default="bfs,minimum", help="names, with commas between")
    parser.add_argument("--hidden-size", type=int, default=128)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=1_000)
    parser.add_argument("--validate-every", type=int, default=100)
    parser.add_argument("--out", type=Path, default=STORED, help="the JSON file that runs are added to")
    parser.add_argument("--page", type=Path, help="a page to write the table of that file into; nothing is trained")
    given = parser.parse_args(arguments)
    if given.page is not None:
        write_page(given.page, read(given.out))
    elif given.software is None:
        parser.error("expected --software narkit or dm-clrs, or --page FILE.md")
    else:
        train(given)


if __name__ == "__main__":
    main()
