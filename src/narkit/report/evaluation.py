"""Scores of a trained run, or of saved weights, on the official test split or at any size."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from rich.console import Console

from narkit.data.memory import check_memory
from narkit.data.splits import SPLITS, benchmark_set
from narkit.errors import UnknownNameError
from narkit.files import write_whole
from narkit.models.processors import PROCESSORS, written_out
from narkit.models.serialization import load
from narkit.printing import print_table
from narkit.report.grid import measured
from narkit.report.published import published
from narkit.report.rendering import text
from narkit.spec import ALGORITHMS, Kind
from narkit.sweeps.systems import main_rule
from narkit.training.config import TrainConfig
from narkit.training.evaluation import EvaluationSet, Scores, as_run
from narkit.training.programs import Programs
from narkit.training.record import selected_parameters
from narkit.training.run_directory import RunDirectory, RunDirectoryError, plain_numbers

TEST = SPLITS["test"]


@dataclass(frozen=True)
class Evaluation:
    """The scores of every seed of a run, or of one network from a file, on one set."""

    config: TrainConfig
    algorithm: str
    size: int
    num_samples: int
    rule: str | None  # none for a file
    seeds: list[Scores]

    def to_json(self) -> dict[str, Any]:
        return plain_numbers(
            {
                "algorithm": self.algorithm,
                "processor": self.config.processor,
                "size": self.size,
                "num_samples": self.num_samples,
                "rule": self.rule,
                "seeds": [
                    {"seed": seed, "outputs": scores.outputs, "hints": scores.hints, "loss": scores.loss}
                    for seed, scores in zip(self.config.seeds, self.seeds, strict=True)
                ],
            }
        )


def evaluate(path: Path, size: int | None, rule: str | None, num_samples: int | None, hints: bool) -> list[Evaluation]:
    """Scores what a rule chose of a run, or the network of a file, on every algorithm that it was trained on."""
    if path.is_file():
        if rule is not None:
            raise RunDirectoryError(f"expected no --rule with {path}: it holds one network; rules choose among a run's")
        config, parameters = as_run(load(path))
    else:
        directory = RunDirectory(path)
        config = directory.config()
        rule = rule or main_rule(config)
        chosen = selected_parameters(directory)
        if rule not in chosen:
            raise UnknownNameError("selection rule", rule, chosen)
        parameters = jnp.asarray(chosen[rule])
    programs = Programs(config)
    size = TEST.size if size is None else size
    results = []
    for name in config.algorithms:
        count = num_samples if num_samples is not None else TEST.num_samples * ALGORITHMS[name].multiplier
        num_nodes = ALGORITHMS[name].nodes_of_size(size)
        together = part_size(num_nodes)
        # Four numbers for every pair of nodes and every feature are the least that a network keeps of them.
        kept = 16.0 * num_nodes**2 * config.hidden_size * together * len(config.seeds)
        check_memory(f"{config.processor} at size {size}", kept, "choose a smaller --size")
        batch = benchmark_set(name, size, count, TEST.seed)
        evaluation = EvaluationSet.of(batch, together, with_hints=hints)
        results.append(Evaluation(config, name, size, count, rule, evaluation.scores(programs, parameters)))
    return results


def part_size(num_nodes: int) -> int:
    """Returns how many samples to predict at a time: the memory that this takes follows from triplets of nodes."""
    return max(1, min(32, round(32 * (64 / num_nodes) ** 3)))


def save_json(evaluations: list[Evaluation], path: Path) -> None:
    write_whole(path, json.dumps([evaluation.to_json() for evaluation in evaluations], indent=2) + "\n")


def name_of_processor(config: TrainConfig) -> str:
    """Returns the name of the processor with its options, so that what was published of TEAM is not said of TEAM+."""
    own = written_out(config.processor, config.processor_options)
    named = (name for name in PROCESSORS if written_out(name, {}) == own)
    return next(named, f"{config.processor} with options")


def print_evaluation(console: Console, evaluation: Evaluation) -> None:
    """Prints the scores of every output and hint, with their spread over the seeds, and what the paper has."""

    def percent(label: str, values: list[float]) -> list[str]:
        scores = 100 * np.array(values)
        return [label, text(measured(scores)), "  ".join(f"{score:.1f}" for score in scores)]

    config, entry = evaluation.config, ALGORITHMS[evaluation.algorithm]
    official = (evaluation.size, evaluation.num_samples) == (TEST.size, TEST.num_samples * entry.multiplier)
    where = "official test split" if official else f"{evaluation.num_samples} samples of size {evaluation.size}"
    which = f"rule {evaluation.rule}, {len(config.seeds)} seeds" if evaluation.rule else "one network"
    rows = []
    for name in evaluation.seeds[0].outputs:
        label = "mean of outputs" if name == "score" else f"output {name}"
        rows.append(percent(label, [scores.outputs[name] for scores in evaluation.seeds]))
    processor = name_of_processor(config)
    paper = published(processor, evaluation.rule or main_rule(config), evaluation.algorithm)
    if paper is not None and official:
        rows.append(["paper", text(paper), ""])
    for name in evaluation.seeds[0].hints:
        values = [scores.hints[name] for scores in evaluation.seeds]
        if entry.transformed_spec[name].kind is Kind.SCALAR:
            error = measured(np.array(values))
            spread = "" if error.std is None else f" ± {error.std:.2g}"
            mean, each = f"{error.mean:.2g}{spread} ({error.seeds})", "  ".join(f"{value:.2g}" for value in values)
            rows.append([f"hint {name} (squared error)", mean, each])
        else:
            rows.append(percent(f"hint {name}", values))
    title = f"{evaluation.algorithm}, {processor}: {where}, {which}, micro-F1 in %"
    print_table(console, ("probe", "mean ± std (seeds)", "each seed"), rows, title)
