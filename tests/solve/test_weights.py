"""Weights by name: what lies in a folder is found, the best comes first, and damaged files are refused."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import jax
import numpy as np
import pytest
import safetensors.numpy

import narkit
from narkit.errors import UnknownNameError
from narkit.models.serialization import ModelFileError
from narkit.solve import weights
from narkit.solve.weights import VARIABLE, WeightsError, best, find, published
from narkit.sweeps.manifest import file_digest

ROOT = Path(__file__).parents[2]


def write_record(path: Path, scores: list[float], seed: int = 0, **changes: object) -> None:
    """A record of what concerns weights, beside a file of weights."""
    algorithm = path.stem
    record = {
        "config": {"seeds": [0, 1], "validations": [{"name": "id", "size": 16}, {"name": "ood", "size": 32}]},
        "selected": {"ood": {"steps": [200, 400], "scores": [0.5, 0.5]}},
        "curve": [
            {"step": 200, "scores": {"id": [0.9, 0.1], "ood": [0.8, 0.1]}},
            {"step": 400, "scores": {"id": [0.1, 0.7], "ood": [0.1, 0.6]}},
        ],
        "test": {algorithm: {"ood": [{"score": score} for score in scores]}},
        "weights": {
            "file": path.name,
            "rule": "ood",
            "seed": seed,
            "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        },
    }
    path.with_suffix(".json").write_text(json.dumps(record | changes))


@pytest.fixture
def folder(make_weights: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = make_weights("bfs", "dijkstra")
    monkeypatch.setenv(VARIABLE, str(folder))
    return folder


def test_a_checkout_finds_what_its_results_have() -> None:
    names = {entry.name for entry in published()}
    files = {f"{path.parent.name}/{path.stem}" for path in (ROOT / "results").glob("*/*/*.safetensors")}
    assert names == files
    assert {f"team/{algorithm}" for algorithm in narkit.ALGORITHMS} <= names
    entry = find("team/dijkstra")
    assert file_digest(entry.path) == entry.record["weights"]["sha256"]
    assert [measured.size for measured in entry.measured] == [16, 32, 64]
    assert find(entry.full_name) == entry
    for algorithm in narkit.ALGORITHMS:
        known = published(algorithm)
        assert best(algorithm).score == max(entry.score or 0.0 for entry in known)


def test_names_lead_to_networks(folder: Path) -> None:
    reasoner = narkit.load("team/bfs")
    assert reasoner.algorithms == ("bfs",)
    assert jax.tree.structure(reasoner) == jax.tree.structure(narkit.load(folder / "team" / "bfs.safetensors"))
    with pytest.raises(UnknownNameError, match="no network is named 'team/bsf'; did you mean 'team/bfs'"):
        narkit.load("team/bsf")
    with pytest.raises(FileNotFoundError, match="there is none at"):
        narkit.load(str(folder / "nowhere.safetensors"))


def test_what_is_put_into_the_folder_appears(folder: Path) -> None:
    other = folder / "sweep" / "mpnn" / "bfs.safetensors"
    other.parent.mkdir(parents=True)
    narkit.save(narkit.Reasoner("bfs", "mpnn", hidden_size=4, key=jax.random.key(0)), other)
    write_record(other, [0.2, 0.9], seed=1)
    assert best("bfs").full_name == "sweep/mpnn/bfs"
    assert [(m.size, m.score) for m in best("bfs").measured] == [(16, 0.7), (32, 0.6), (64, 0.9)]
    write_record(folder / "team" / "bfs.safetensors", [0.95, 0.3])
    assert best("bfs").name == "team/bfs"
    answer = narkit.solve("bfs", [(0, 1), (1, 2)], source=0, weights="sweep/mpnn/bfs")
    assert answer.weights_name == "mpnn/bfs"
    assert answer.scored is not None and answer.scored.score == 0.7


def test_a_file_that_its_record_does_not_tell_of_is_refused(folder: Path) -> None:
    path = folder / "team" / "bfs.safetensors"
    write_record(path, [0.95, 0.3])
    narkit.load("team/bfs")
    narkit.save(narkit.Reasoner("bfs", "team", hidden_size=8, key=jax.random.key(1)), path)
    with pytest.raises(WeightsError, match=r"expected the weights that bfs\.json tells of"):
        narkit.load("team/bfs")
    assert best("bfs").summary()["agrees_with_record"] is False
    path.with_suffix(".json").write_text("{")
    with pytest.raises(WeightsError, match="expected the record of the weights"):
        best("bfs")
    write_record(path, [0.95, 0.3], curve=None)
    with pytest.raises(WeightsError, match="expected the record of a run"):
        best("bfs")


def test_damaged_files_are_refused_with_a_reason(folder: Path) -> None:
    path = folder / "team" / "dijkstra.safetensors"
    whole = path.read_bytes()
    for damaged in (whole[:-1], whole[: len(whole) // 2], whole + b"\0", whole[:4], b"", b"\xff" * 64):
        path.write_bytes(damaged)
        with pytest.raises(ModelFileError, match="expected a safetensors file"):
            narkit.load("team/dijkstra")
    path.write_bytes(whole)
    tensors = safetensors.numpy.load_file(path)
    with safetensors.safe_open(path, framework="numpy") as file:
        header = json.loads(file.metadata()["narkit"])
    name = next(iter(tensors))
    broken = {**tensors, name: np.full_like(tensors[name], np.nan)}
    safetensors.numpy.save_file(broken, path, {"narkit": json.dumps(header)})
    with pytest.raises(ModelFileError, match=f"tensor {name}: expected finite numbers"):
        narkit.load("team/dijkstra")
    safetensors.numpy.save_file(tensors, path, {"narkit": json.dumps(header | {"format": 99})})
    with pytest.raises(ModelFileError, match="expected format 1, got 99"):
        narkit.load("team/dijkstra")


def test_places_without_weights_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    with pytest.raises(WeightsError, match="expected published weights, but there are none"):
        narkit.solve("quicksort", [3, 1, 2])
    monkeypatch.setenv(VARIABLE, str(tmp_path / "nowhere"))
    with pytest.raises(WeightsError, match="expected a folder of weights"):
        narkit.solve("quicksort", [3, 1, 2])
    monkeypatch.delenv(VARIABLE)
    monkeypatch.setattr(weights, "PACKAGE", tmp_path / "site-packages" / "narkit")
    assert weights.folders() == [tmp_path / "site-packages" / "narkit" / "weights"]


def test_a_network_for_another_algorithm_is_refused(folder: Path) -> None:
    with pytest.raises(ValueError, match="expected a network for bfs, got one for dijkstra"):
        narkit.solve("bfs", [(0, 1)], source=0, weights="team/dijkstra")
