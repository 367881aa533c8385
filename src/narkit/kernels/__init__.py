"""Reductions over triplets of nodes that never hold an array over all triplets and features.

Each is one function with its own gradient rule; `reference` holds the same mathematics written plainly.
"""
