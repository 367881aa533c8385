"""Trains two small networks on breadth-first search and compares them on graphs twice as large.

python examples/train_small.py              # about a minute on two cores
python examples/train_small.py --steps 400  # longer, and better
"""

import argparse

import narkit
from narkit.training.presets import preset


def main(arguments: list[str] | None = None) -> dict[str, list[float]]:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--hidden-size", type=int, default=16)
    parser.add_argument("--processors", default="mpnn,triplet_gmpnn")
    options = parser.parse_args(arguments)
    scores = {}
    for processor in options.processors.split(","):
        config = preset(
            "quick",
            algorithms="bfs",
            processor=processor,
            seeds=(0, 1),
            steps=options.steps,
            validate_every=max(1, options.steps // 2),
            hidden_size=options.hidden_size,
        )
        record = narkit.train(config)
        scores[processor] = record.test_scores("bfs", rule="ood")
        print(f"{processor}: {', '.join(f'{score:.1f} %' for score in scores[processor])} on 64 nodes, one per seed")
    return scores


if __name__ == "__main__":
    main()
