"""The scores at the end of a run: every rule's choice on the official test split, and on sets that choose nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import jax.numpy as jnp
import numpy as np

from narkit.training.config import TrainConfig
from narkit.training.evaluation import TEST_PART, EvaluationSet, Scores, validation_batch
from narkit.training.programs import Programs
from narkit.training.selection import Selection

TestScores = dict[str, dict[str, list[Scores]]]
"""Scores on the official test split, or on another set: algorithm -> rule -> per seed."""

Tested = dict[tuple[str, str, int, int], Scores]
"""Scores by network: what it was scored on, the kind of weights, the row of the seed and the step. On the official
test split that is the name of the algorithm, on another set `SET/ALGORITHM`."""


def final_sets(config: TrainConfig) -> Iterator[tuple[str, str, EvaluationSet]]:
    """Yields what is scored at the end, one after the other and made anew each time: the name of a set, which the
    official test split has none of, an algorithm, and its instances."""
    for each in config.scored:
        for name in config.algorithms:
            yield each.name, name, EvaluationSet.of(validation_batch(name, each), TEST_PART)
    for name in config.algorithms if config.test else ():
        yield "", name, EvaluationSet.of_test(name)


def final_scores(
    programs: Programs,
    selection: Selection,
    known: Tested,
    keep: Callable[[Tested], None],
    before_part: Callable[[], None],
) -> tuple[TestScores, dict[str, TestScores]]:
    """Scores every rule's choice on the official test split, and on each set that is scored at the end.

    `known` has scores that were found before, and `keep` is given all that are known after each part. `before_part` is
    as for `EvaluationSet.scores`.
    """
    num_seeds = len(programs.config.seeds)
    # Rules often agree, and each network is scored once: as many at a time as there are seeds, of any seed.
    networks_of = {
        rule.name: [(rule.weights, row, step) for row, step in enumerate(selection.steps[rule.name])]
        for rule in selection.rules.values()
    }
    rule_of = {network: rule for rule, found in networks_of.items() for network in found}
    tested = dict(known)
    results: dict[str, TestScores] = {}
    for where, algorithm, instances in final_sets(programs.config):
        name = f"{where}/{algorithm}" if where else algorithm
        networks = [network for network in rule_of if (name, *network) not in tested]
        for start in range(0, len(networks), num_seeds):
            part = networks[start : start + num_seeds]
            filled = part + part[:1] * (num_seeds - len(part))
            parameters = np.stack([selection.parameters[rule_of[network]][network[1]] for network in filled])
            found = instances.scores(programs, jnp.asarray(parameters), before_part)
            tested |= {(name, *network): scores for network, scores in zip(part, found, strict=False)}
            keep(tested)
        results.setdefault(where, {})[algorithm] = {
            rule: [tested[name, *network] for network in chosen_by] for rule, chosen_by in networks_of.items()
        }
    return results.pop("", {}), results
