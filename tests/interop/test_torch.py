"""Datasets for the real PyTorch and PyTorch Geometric: `pytest -m torch`, with the extra `torch` installed."""

import importlib
import sys

import numpy as np
import pytest

import narkit
from narkit.interop.samples import POINTERS, choose_batch


@pytest.mark.torch
def test_a_loader_gives_what_the_split_holds() -> None:
    from torch.utils.data import DataLoader  # pyright: ignore[reportMissingImports]

    data = narkit.interop.torch.dataset("dijkstra", "val")
    split = narkit.load_split("dijkstra", "val")
    assert len(data) == len(split) == 32 and data.spec is split.spec
    (batch,) = DataLoader(data, batch_size=32, collate_fn=data.collate)
    np.testing.assert_array_equal(batch["lengths"].numpy(), split.lengths)
    for stage in ("inputs", "hints", "outputs"):
        for name, values in getattr(split, stage).items():
            np.testing.assert_array_equal(batch[stage][name].numpy(), values)


@pytest.mark.torch
def test_collating_pads_and_types_fit_losses() -> None:
    import torch  # pyright: ignore[reportMissingImports]
    from torch.nn.functional import cross_entropy  # pyright: ignore[reportMissingImports]
    from torch.utils.data import DataLoader  # pyright: ignore[reportMissingImports]

    data = narkit.interop.torch.dataset("bfs", "train", size=8, count=10, seed=5)
    lengths = []
    for batch in DataLoader(data, batch_size=4, collate_fn=narkit.interop.torch.collate):
        lengths += batch["lengths"].tolist()
        assert len(batch["hints"]["pi_h"]) == max(batch["lengths"])
        logits = torch.randn(*batch["outputs"]["pi"].shape, 8)
        assert cross_entropy(logits.flatten(0, 1), batch["outputs"]["pi"].flatten()).isfinite()
        assert batch["inputs"]["adj"].dtype == torch.float32
    assert lengths == choose_batch("bfs", "train", size=8, count=10, seed=5).lengths.tolist()
    assert data[-1]["length"] == lengths[-1]
    with pytest.raises(IndexError, match=r"expected a sample in 0\.\.9, got 10"):
        data[10]


@pytest.mark.torch
def test_workers_of_a_loader_take_the_dataset_along() -> None:
    from torch.utils.data import DataLoader  # pyright: ignore[reportMissingImports]

    data = narkit.interop.torch.dataset("minimum", size=4, count=8)
    context = "spawn"  # a fork of a process with threads may hang
    loader = DataLoader(data, batch_size=4, collate_fn=data.collate, num_workers=1, multiprocessing_context=context)
    assert [batch["outputs"]["min"].shape for batch in loader] == [(4, 4), (4, 4)]


@pytest.mark.torch
@pytest.mark.filterwarnings("default")  # PyTorch Geometric uses what PyTorch deprecates
@pytest.mark.parametrize("name", sorted(narkit.ALGORITHMS))
def test_graphs_for_pyg_hold_what_the_batch_holds(name: str) -> None:
    from torch_geometric.loader import DataLoader  # pyright: ignore[reportMissingImports]

    batch = choose_batch(name, size=5, count=4, seed=3)
    (joined,) = DataLoader(narkit.interop.pyg.convert(batch), batch_size=4)
    assert joined.num_graphs == 4 and joined.num_nodes == 4 * batch.num_nodes
    np.testing.assert_array_equal(joined.length.numpy(), batch.lengths)
    offsets = np.repeat(np.arange(4) * batch.num_nodes, batch.num_nodes)
    for probe_name, probe in batch.spec.items():
        if probe.location != "node":
            continue
        values = joined[probe_name].numpy()
        expected = {**batch.inputs, **batch.hints, **batch.outputs}[probe_name]
        if probe.stage == "hint":
            expected = np.moveaxis(expected, 0, 2)
        expected = expected.reshape(-1, *expected.shape[2:])
        if probe.kind in POINTERS:
            values = values - offsets.reshape(-1, *(1,) * (values.ndim - 1))
        np.testing.assert_array_equal(values, expected)


@pytest.mark.torch
@pytest.mark.filterwarnings("default")
def test_edges_for_pyg_carry_their_values() -> None:
    batch = choose_batch("dijkstra", size=6, count=3, seed=1)
    for index, graph in enumerate(narkit.interop.pyg.dataset("dijkstra", size=6, count=3, seed=1)):
        source, target = np.asarray(graph.edge_index)
        np.testing.assert_array_equal(graph.A.numpy(), batch.inputs["A"][index][source, target])
        assert graph.num_edges == batch.inputs["adj"][index].sum()
        assert graph.validate()


@pytest.mark.parametrize(("module", "missing"), [("torch", "torch"), ("pyg", "torch"), ("networkx", "networkx")])
def test_what_is_not_installed_is_named(module: str, missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    monkeypatch.delitem(sys.modules, f"narkit.interop.{module}", raising=False)
    with pytest.raises(ImportError, match=r"is not installed; install .* pip install 'narkit\["):
        importlib.import_module(f"narkit.interop.{module}")
