"""Trajectories for PyTorch: a `torch.utils.data.Dataset` of dictionaries of tensors, and a function that collates them.

    from torch.utils.data import DataLoader
    import narkit

    data = narkit.interop.torch.dataset("bfs", "train")
    for batch in DataLoader(data, batch_size=32, shuffle=True, collate_fn=data.collate):
        batch["inputs"]["adj"]  # (batch, nodes, nodes)
        batch["hints"]["reach_h"]  # (time, batch, nodes), zero beyond a sample's length

Pointers are int64, as `torch.nn.functional.cross_entropy` takes them; everything else is float32. A value of -1 in a
mask or a category means that it does not count. Needs the extra `torch`; the conversion itself is in
`narkit.interop.samples`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from narkit.data.batch import Batch
from narkit.interop.samples import Sample, choose_batch, sample_of, stack, widened
from narkit.spec import Spec

try:
    import torch  # pyright: ignore[reportMissingImports]
    from torch.utils.data import Dataset  # pyright: ignore[reportMissingImports]
except ModuleNotFoundError as error:
    raise ImportError(
        "narkit.interop.torch needs PyTorch, which is not installed; install it with: pip install 'narkit[torch]'"
    ) from error


class Trajectories(Dataset):
    """Trajectories of one algorithm as dictionaries of tensors.

    An item has `inputs` and `outputs` (name to tensor), `hints` (name to (time, ...), cut to the trajectory's own
    length) and `length`. `spec` says what every name means. Tensors are views of one array for the whole set: clone
    them before changing them in place.
    """

    def __init__(self, batch: Batch):
        self.algorithm = batch.algorithm
        self.spec: Spec = batch.spec
        self.batch = widened(batch)

    def __len__(self) -> int:
        return len(self.batch)

    def __getitem__(self, index: int) -> dict[str, Any]:
        if not -len(self) <= index < len(self):
            raise IndexError(f"expected a sample in 0..{len(self) - 1}, got {index}")
        sample = sample_of(self.batch, index)
        return {
            "inputs": _tensors(sample.inputs),
            "hints": _tensors(sample.hints),
            "outputs": _tensors(sample.outputs),
            "length": sample.length,
        }

    @staticmethod
    def collate(items: list[dict[str, Any]]) -> dict[str, Any]:
        """Collates items into one: hints (time, batch, ...) are padded with zeros and end at `lengths` (batch,)."""
        trajectories = [
            Sample(_arrays(item["inputs"]), _arrays(item["hints"]), _arrays(item["outputs"]), item["length"])
            for item in items
        ]
        inputs, hints, outputs, lengths = stack(trajectories)
        return {
            "inputs": _tensors(inputs),
            "hints": _tensors(hints),
            "outputs": _tensors(outputs),
            "lengths": torch.from_numpy(lengths),
        }


collate = Trajectories.collate


def dataset(
    algorithm: str,
    split: str | None = None,
    *,
    size: int | None = None,
    count: int | None = None,
    seed: int | None = None,
    transformed: bool = False,
) -> Trajectories:
    """Returns an official split ("train", "val" or "test") as a dataset, or one like it of another size, count or seed.

    `transformed=True` gives what networks are trained on (random positions, hints that never change as inputs) instead
    of what the benchmark publishes; see `narkit.transform`.
    """
    return Trajectories(choose_batch(algorithm, split, size=size, count=count, seed=seed, transformed=transformed))


def _tensors(arrays: dict[str, np.ndarray]) -> dict[str, torch.Tensor]:
    return {name: torch.from_numpy(np.asarray(values)) for name, values in arrays.items()}


def _arrays(tensors: dict[str, torch.Tensor]) -> dict[str, np.ndarray]:
    return {name: values.numpy() for name, values in tensors.items()}
