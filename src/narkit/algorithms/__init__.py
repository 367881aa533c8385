"""CLRS-30 as compiled textbook code. Importing this package registers all thirty algorithms."""

from narkit.algorithms import (  # noqa: F401
    graph_traversal,
    sorting,
)
