"""Asks a trained network for shortest paths in a small road network and compares with Dijkstra's own answer.

python examples/ask_a_network.py
"""

import narkit

ROADS = [
    ("Ulm", "Augsburg", 80),
    ("Augsburg", "Munich", 66),
    ("Ulm", "Kempten", 88),
    ("Kempten", "Munich", 123),
    ("Munich", "Rosenheim", 59),
]


def main() -> None:
    answer = narkit.solve("dijkstra", ROADS, source="Ulm")
    print(answer)


if __name__ == "__main__":
    main()
