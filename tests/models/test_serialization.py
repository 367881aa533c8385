"""Saved reasoners come back as they were; other files are refused with a reason."""

import functools
import json
import os

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import safetensors.flax

import narkit
from narkit.models.processors.mpnn import MPNN
from narkit.models.processors.team import TEAM
from narkit.models.serialization import ModelFileError

KEY = jax.random.key(3)


def assert_same(first, second):
    assert jax.tree.structure(first) == jax.tree.structure(second)
    jax.tree.map(np.testing.assert_array_equal, first, second)


@pytest.fixture(scope="module")
def reasoner():
    return narkit.Reasoner("bfs", "mpnn", 4, key=KEY)


@pytest.fixture
def saved(reasoner, tmp_path):
    path = tmp_path / "model.safetensors"
    narkit.save(reasoner, path)
    return path


def rewrite(path, tensors=None, **header):
    """Saves the file again with other tensors or metadata."""
    with safetensors.safe_open(path, framework="flax") as file:
        metadata = json.loads(file.metadata()["narkit"])
    tensors = safetensors.flax.load_file(path) if tensors is None else tensors
    safetensors.flax.save_file(tensors, path, {"narkit": json.dumps(metadata | header)})


@pytest.mark.parametrize(
    ("algorithms", "processor", "hints"),
    [
        ("bfs", "team", "encoded"),
        (["bfs", "insertion_sort"], functools.partial(TEAM, num_heads=2, slope=0.2), "decoded"),
        (["floyd_warshall"], MPNN, "none"),
    ],
)
def test_round_trip(algorithms, processor, hints, tmp_path):
    reasoner = narkit.Reasoner(algorithms, processor, 4, hints, key=KEY)
    narkit.save(reasoner, tmp_path / "model.safetensors")
    assert_same(narkit.load(tmp_path / "model.safetensors"), reasoner)
    assert os.listdir(tmp_path) == ["model.safetensors"]


def test_the_header_tells_how_to_build_the_network(saved):
    with safetensors.safe_open(saved, framework="flax") as file:
        header = json.loads(file.metadata()["narkit"])
        names = set(file.keys())
    assert header == {
        "format": 1,
        "narkit": narkit.__version__,
        "algorithms": ["bfs"],
        "processor": "mpnn",
        "processor_options": {},
        "hidden_size": 4,
        "hints": "encoded",
    }
    assert {"encoders.bfs.linears.pos.0.weight", "processor.message_passing.mlp.1.bias"} <= names


def test_half_precision_export(reasoner, tmp_path):
    whole, half = tmp_path / "whole.safetensors", tmp_path / "half.safetensors"
    narkit.save(reasoner, whole)
    narkit.save(reasoner, half, dtype="bfloat16")
    back = narkit.load(half)
    assert jax.tree.structure(back) == jax.tree.structure(reasoner)
    rounded = jax.tree.map(lambda values: values.astype(jnp.bfloat16).astype(jnp.float32), reasoner)
    assert_same(back, rounded)
    tensors = safetensors.flax.load_file(half)
    assert {values.dtype for values in tensors.values()} == {jnp.dtype(jnp.bfloat16)}
    with pytest.raises(ValueError, match="did you mean 'float32'"):
        narkit.save(reasoner, half, dtype="float23")


def test_processors_of_others_need_a_name(tmp_path, monkeypatch):
    class Mine(MPNN):
        pass

    anonymous = narkit.Reasoner("bfs", Mine, 4, key=KEY)
    with pytest.raises(
        ValueError, match=r"register it before you make the reasoner: narkit\.PROCESSORS\['mine'\] = Mine"
    ):
        narkit.save(anonymous, tmp_path / "model.safetensors")
    assert os.listdir(tmp_path) == []
    monkeypatch.setitem(narkit.PROCESSORS, "mine", Mine)
    reasoner = narkit.Reasoner("bfs", Mine, 4, key=KEY)
    narkit.save(reasoner, tmp_path / "model.safetensors")
    assert_same(narkit.load(tmp_path / "model.safetensors"), reasoner)
    monkeypatch.delitem(narkit.PROCESSORS, "mine")
    with pytest.raises(ModelFileError, match=r"no processor is named 'mine'.*register it first"):
        narkit.load(tmp_path / "model.safetensors")


def test_options_must_fit_into_json(tmp_path, monkeypatch):
    def mine(hidden_size, activation, *, key):
        return narkit.PROCESSORS["mpnn"](hidden_size, key=key)

    monkeypatch.setitem(narkit.PROCESSORS, "mine", mine)
    reasoner = narkit.Reasoner("bfs", functools.partial(mine, activation=jnp.tanh), 4, key=KEY)
    with pytest.raises(ValueError, match="options of 'mine' that JSON can express"):
        narkit.save(reasoner, tmp_path / "model.safetensors")


def test_stacked_seeds_are_refused(tmp_path):
    seeds = eqx.filter_vmap(lambda key: narkit.Reasoner("bfs", "mpnn", 4, key=key))(jax.random.split(KEY, 2))
    with pytest.raises(ValueError, match="Of several seeds, save one at a time"):
        narkit.save(seeds, tmp_path / "model.safetensors")


def test_a_failed_write_leaves_the_old_file(saved, reasoner, monkeypatch):
    before = saved.read_bytes()

    def fail(*_):
        raise OSError("no space left")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="no space left"):
        narkit.save(jax.tree.map(jnp.zeros_like, reasoner), saved)
    assert saved.read_bytes() == before
    assert os.listdir(saved.parent) == [saved.name]


def test_no_file(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"written by narkit\.save, but there is none at"):
        narkit.load(tmp_path / "model.safetensors")


@pytest.mark.parametrize("content", [b"", b"weights", b"\0" * 100])
def test_other_files(content, tmp_path):
    path = tmp_path / "model.safetensors"
    path.write_bytes(content)
    with pytest.raises(ModelFileError, match=r"model.safetensors: expected a safetensors file"):
        narkit.load(path)


def test_a_file_cut_short(saved):
    saved.write_bytes(saved.read_bytes()[:-100])
    with pytest.raises(ModelFileError, match="expected a safetensors file"):
        narkit.load(saved)


@pytest.mark.parametrize("metadata", [None, {"format": "pt"}, {"narkit": "?"}])
def test_foreign_metadata(metadata, tmp_path):
    path = tmp_path / "model.safetensors"
    safetensors.flax.save_file({"weight": jnp.zeros(3)}, path, metadata)
    with pytest.raises(ModelFileError, match=r"expected metadata 'narkit' as narkit\.save writes them"):
        narkit.load(path)


def test_headers_that_fit_nothing(saved):
    rewrite(saved, format=7)
    with pytest.raises(ModelFileError, match="expected format 1, got 7"):
        narkit.load(saved)
    rewrite(saved, format=1, processor="mpn")
    with pytest.raises(ModelFileError, match="no processor is named 'mpn'; did you mean 'mpnn'"):
        narkit.load(saved)
    rewrite(saved, processor="mpnn", processor_options={"num_heads": 2})
    with pytest.raises(ModelFileError, match=r"'mpnn' does not take the options \{'num_heads': 2\}"):
        narkit.load(saved)
    rewrite(saved, processor_options={}, algorithms=["bsf"])
    with pytest.raises(ModelFileError, match="no algorithm is named 'bsf'; did you mean 'bfs'"):
        narkit.load(saved)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("algorithms", "bfs"),
        ("algorithms", [3]),
        ("algorithms", None),
        ("processor", ["mpnn"]),
        ("processor_options", [1]),
        ("hidden_size", "4"),
        ("hidden_size", 4.5),
        ("hints", {}),
    ],
)
def test_metadata_of_another_type(saved, name, value):
    rewrite(saved, **{name: value})
    with pytest.raises(ModelFileError, match=f"metadata: expected {name} as narkit.save writes it, got "):
        narkit.load(saved)


@pytest.mark.parametrize(
    ("name", "value"), [("hidden_size", 0), ("hidden_size", 2**70), ("hints", "x"), ("algorithms", [])]
)
def test_metadata_of_no_network(saved, name, value):
    rewrite(saved, **{name: value})
    with pytest.raises(ModelFileError, match="no network is as its metadata say"):
        narkit.load(saved)


def test_a_padded_file(saved):
    saved.write_bytes(saved.read_bytes() + b"\0")
    with pytest.raises(ModelFileError, match="expected a safetensors file"):
        narkit.load(saved)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_numbers_that_are_not_finite(saved, value):
    tensors = safetensors.flax.load_file(saved)
    name = "processor.message_passing.edge.weight"
    rewrite(saved, {**tensors, name: tensors[name].at[0, 0].set(value)})
    with pytest.raises(ModelFileError, match=f"tensor {name}: expected finite numbers, got NaN or infinity"):
        narkit.load(saved)


def test_tensors_that_do_not_fit(saved):
    tensors = safetensors.flax.load_file(saved)
    name = "processor.message_passing.edge.weight"
    rewrite(saved, {**tensors, name: tensors[name].astype(int)})
    with pytest.raises(ModelFileError, match=f"tensor {name}: expected float32 or bfloat16, got int32"):
        narkit.load(saved)
    rewrite(saved, {**tensors, name: jnp.zeros((4, 5))})
    with pytest.raises(ModelFileError, match=rf"tensor {name}: expected shape \(4, 4\), got \(4, 5\)"):
        narkit.load(saved)
    rewrite(saved, {"mine": jnp.zeros(2), **{key: value for key, value in tensors.items() if key != name}})
    with pytest.raises(ModelFileError, match=rf"missing \['{name}'\], superfluous \['mine'\]"):
        narkit.load(saved)
