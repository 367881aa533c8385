"""CLRS-30 as compiled textbook code. Importing this package registers all thirty algorithms."""

from narkit.algorithms import (  # noqa: F401
    divide_and_conquer,
    dynamic_programming,
    geometry,
    graph_connectivity,
    graph_paths,
    graph_spanning_trees,
    graph_traversal,
    greedy,
    searching,
    sorting,
    strings,
)
from narkit.spec import ALGORITHMS

__all__ = ["ALGORITHMS"]
