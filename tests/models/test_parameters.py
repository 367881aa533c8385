"""Table 3 of the paper: parameters of TEAM relative to Triplet-GMPNN. Shapes suffice, nothing is computed."""

import csv
from importlib import resources

import equinox as eqx
import jax
import pytest

import narkit


def table() -> dict[str, tuple[float, int]]:
    text = resources.files("narkit.report").joinpath("paper/table_parameters.csv").read_text()
    rows = csv.DictReader(text.splitlines())
    return {row["algorithm"]: (float(row["paper_ratio"]), int(row["triplet_gmpnn_parameters"])) for row in rows}


TABLE = table()


def count(tree) -> int:
    return sum(leaf.size for leaf in jax.tree.leaves(tree))


def reasoner(name: str, processor: str) -> narkit.Reasoner:
    return eqx.filter_eval_shape(
        lambda key: narkit.Reasoner(name, processor, hidden_size=128, key=key), jax.random.key(0)
    )


def test_the_table_has_every_algorithm() -> None:
    assert set(TABLE) == set(narkit.ALGORITHMS)


@pytest.mark.parametrize("name", TABLE)
def test_parameter_counts(name: str) -> None:
    paper_ratio, reference = TABLE[name]
    baseline, team = reasoner(name, "triplet_gmpnn"), reasoner(name, "team")
    assert count(baseline) == reference
    assert round(count(team) / count(baseline), 2) == paper_ratio
    assert count(team.processor) == 379_649
