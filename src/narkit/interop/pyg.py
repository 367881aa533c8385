"""Trajectories for PyTorch Geometric: one `Data` object each, which its `DataLoader` batches without further help.

    from torch_geometric.loader import DataLoader
    import narkit

    for batch in DataLoader(narkit.interop.pyg.dataset("bfs", "train"), batch_size=32):
        batch.edge_index, batch.s, batch.pi, batch.reach_h

Every probe is an attribute under its own name: (nodes, ...), (edges, ...) or (1, ...) for the graph. Hints have their
steps as the second axis, padded with zeros to the longest trajectory of the set, and `length` says where each ends.
Pointers are node numbers, so batching raises them like `edge_index`. Needs the extra `torch`; the conversion itself is
in `narkit.interop.samples`.
"""

from __future__ import annotations

from typing import Any

from narkit.data.batch import Batch
from narkit.interop.samples import POINTERS, choose_batch, edge_lists, widened

try:
    import torch  # pyright: ignore[reportMissingImports]
    from torch_geometric.data import Data  # pyright: ignore[reportMissingImports]
except ModuleNotFoundError as error:
    raise ImportError(
        f"narkit.interop.pyg needs PyTorch and PyTorch Geometric, but {error.name} is not installed; install both "
        "with: pip install 'narkit[torch]'"
    ) from error


class Trajectory(Data):
    """One trajectory. `pointers` names the attributes whose values are node numbers."""

    def __inc__(self, key: str, value: Any, *args: Any, **kwargs: Any) -> Any:
        if key in (self._store.get("pointers") or ()):
            return self.num_nodes
        return super().__inc__(key, value, *args, **kwargs)


def dataset(
    algorithm: str,
    split: str | None = None,
    *,
    size: int | None = None,
    count: int | None = None,
    seed: int | None = None,
    transformed: bool = False,
) -> list[Trajectory]:
    """Returns an official split ("train", "val", "test") as `Data` objects, or one of another size, count or seed."""
    return convert(choose_batch(algorithm, split, size=size, count=count, seed=seed, transformed=transformed))


def convert(batch: Batch) -> list[Trajectory]:
    """Returns the trajectories of a batch. A probe whose name `Data` keeps for itself gets an underscore behind it."""
    pointers = [_name(name) for name, probe in batch.spec.items() if probe.kind in POINTERS]
    converted = []
    for graph in edge_lists(widened(batch)):
        values = {_name(name): torch.from_numpy(array.copy()) for name, array in graph.values.items()}
        converted.append(
            Trajectory(
                edge_index=torch.from_numpy(graph.edge_index.copy()),
                length=torch.tensor([graph.length]),
                num_nodes=graph.num_nodes,
                pointers=pointers,
                **values,
            )
        )
    return converted


def _name(probe: str) -> str:
    """Returns the attribute of a probe, which must not hide a method of `Data`, such as `size`."""
    return f"{probe}_" if callable(getattr(Data, probe, None)) else probe
