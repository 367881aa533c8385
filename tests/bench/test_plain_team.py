"""What trains the plain transcription of TEAM, for the comparison of `narkit bench train`."""

import pytest

from narkit.bench.training_steps import load_plain_team
from narkit.training.presets import preset


def test_an_algorithm_with_permutations_is_refused() -> None:
    config = preset("quick", algorithms="bubble_sort", processor="team", hidden_size=4, seeds=(0,))
    with pytest.raises(ValueError, match="without the noise of permutations, which bubble_sort needs"):
        load_plain_team().initial_state(config)
