"""What `narkit eval` says beside the scores."""

import pytest

from narkit import TrainConfig
from narkit.models.processors import TEAM_PLUS
from narkit.report.evaluation import name_of_processor
from narkit.report.published import published


@pytest.mark.parametrize(
    "processor, options, name, is_published",
    [
        ("team", {}, "team", True),
        ("team", TEAM_PLUS, "team_plus", False),  # as files of weights have it
        ("team_plus", {}, "team_plus", False),
        ("team", {"gated": False}, "team with options", False),
        ("triplet_gmpnn", {}, "triplet_gmpnn", True),
    ],
)
def test_the_paper_is_quoted_of_its_own_networks_alone(processor, options, name, is_published):
    config = TrainConfig(("bfs",), processor, processor_options=options)
    assert name_of_processor(config) == name
    assert (published(name, "ood", "bfs") is not None) == is_published
