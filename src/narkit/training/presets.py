"""Named settings of training. `narkit train --preset paper` and `preset("paper", algorithms="bfs")` use them.

From elsewhere: `PRESETS["mine"] = {"steps": 2000}`; what is not said has the defaults of `TrainConfig`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from narkit.errors import UnknownNameError
from narkit.training.config import BENCHMARK, TrainConfig, Validation
from narkit.training.rules import AVERAGED, Rule

# The protocol of Jung & Ahn (2023). Their code validates every 50 steps; every 200 steps on 128 samples of each size
# tracks the same two rules at a small part of the cost.
_PAPER = {
    "steps": 10_000,
    "validate_every": 200,
    "validations": (Validation("id", 16, 128), Validation("ood", 32, 128)),
}
_PLUS = {**_PAPER, "average": 0.999, "skipped_steps": 50, "hint_gradient": 0.5}

PRESETS: dict[str, Mapping[str, Any]] = {
    "paper": _PAPER,
    # The protocol of `paper` for networks that go beyond it: the same steps, data, sizes, hints and width. Weights are
    # averaged, and a seed is not lost to a single gradient that is not finite. Its rule, fixed beforehand, is
    # `ood_average`: nothing above size 32 chooses a checkpoint. Rules that take the first of equal scores are left out,
    # since each rule costs a pass over the test split.
    "plus": {
        **_PLUS,
        "rules": (
            *(Rule(name, name) for name in ("id", "ood")),
            Rule("last", None),
            *(Rule(f"{name}_average", name, AVERAGED) for name in ("id", "ood")),
            Rule("last_average", None, AVERAGED),
        ),
    },
    # Development runs: the protocol of `plus` with fewer steps, scored at the end on instances of size 64 that are not
    # the official test, which is not looked at. These instances choose no checkpoint. Its seeds are 100 and up.
    "development": {
        **_PLUS,
        "steps": 4_000,
        "scored": (Validation("dev", 64, 32, BENCHMARK, seed=1000, selects=False),),
        "test": False,
        "seeds": (100,),
    },
    # Minutes on two cores: a narrow network on small instances.
    "quick": {
        "hidden_size": 32,
        "steps": 500,
        "batch_size": 16,
        "sizes": (4, 7, 11),
        "learning_rate": 3e-3,
        "validate_every": 50,
        "validations": (Validation("id", 11, 64), Validation("ood", 22, 32)),
    },
    # The first release of the benchmark (Veličković et al., 2022), before the improvements of Ibarz et al. (2022): no
    # fresh samples, sizes or densities, no random positions, hints half teacher-forced and fed back hard, no clipping.
    # Its processors are `mpnn`, `pgn`, `memnet` and `deepsets`, without gates. What stays of the later changes because
    # it is part of narkit's networks: constant hints are inputs, sorts predict permutations, and encoders of scalar
    # hints start with a smaller scale.
    "clrs2022": {
        "processor": "mpnn",
        "steps": 10_000,
        "sizes": (16,),
        "fixed_training_set": True,
        "random_positions": False,
        "teacher_forcing": 0.5,
        "reprediction": "hard",
        "gradient_clip": 0.0,
        "validate_every": 200,
        "validations": (Validation("id", 16, 32, BENCHMARK),),
    },
}

IN_WORDS: Mapping[str, str] = {
    "paper": "The protocol of Jung & Ahn (2023): 10,000 steps of 32 fresh samples of 4 to 16 nodes, width 128.",
    "plus": "The protocol of paper with averaged weights, hint gradients that are damped, and seeds that outlive steps "
    "without a finite gradient.",
    "development": "The protocol of plus with 4,000 steps and seeds from 100, scored on its own instances of 64 nodes "
    "and not on the official test.",
    "quick": "Minutes on two CPU cores: width 32, up to 11 nodes, 500 steps.",
    "clrs2022": "The first release of the benchmark (Veličković et al., 2022): 1,000 fixed samples of 16 nodes, hints "
    "half teacher-forced.",
}
"""The purpose of each preset, in a sentence; one of your own needs none."""

# How many seeds the tables of a preset stand on: as many as the published columns that it is compared with.
SEEDS: Mapping[str, int] = {"paper": 5, "plus": 5, "development": 3, "quick": 5, "clrs2022": 3}
DEFAULT_SEEDS = 5
# The first of them, so that nothing is decided with seeds that tables stand on.
FIRST_SEED: Mapping[str, int] = {"development": 100}


def number_of_seeds(name: str) -> int:
    """Returns the number of seeds that the tables of a preset stand on."""
    if name not in PRESETS:
        raise UnknownNameError("preset", name, PRESETS)
    return SEEDS.get(name, DEFAULT_SEEDS)


def seeds_of(name: str, count: int | None = None) -> range:
    """Returns the seeds that a preset trains, or the first `count` of them."""
    known, first = number_of_seeds(name), FIRST_SEED.get(name, 0)
    return range(first, first + (known if count is None else count))


def preset(name: str, **options: Any) -> TrainConfig:
    """Returns the configuration of a preset, with `algorithms` and whatever else should differ from it."""
    if name not in PRESETS:
        raise UnknownNameError("preset", name, PRESETS)
    return TrainConfig.from_json({**PRESETS[name], **options})
