"""What runs in kernels and what does not, and why: exact classes and options, a width, a GPU, and formulas as they
were when the kernels were compared with them."""

from __future__ import annotations

import functools
import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np
import pytest

import narkit
from narkit.fused import accelerate, availability, formulas, launch, probe, recognition
from narkit.models import network, objective
from narkit.models.layers import Linear
from narkit.models.network import DeviceBatch
from narkit.models.processors.message_passing import BoundMessagePassing
from narkit.models.processors.team import TEAM
from narkit.models.unrolling import Unrolling
from narkit.training.config import TrainConfig
from narkit.training.programs import Programs

from .emulation import emulated, needs_compiler


def shapes(processor: Any = "team", hidden_size: int = 128, algorithm: str = "bfs") -> narkit.Reasoner:
    """A network without numbers: what runs fast does not depend on them."""
    make = functools.partial(narkit.Reasoner, algorithm, processor, hidden_size)
    return eqx.filter_eval_shape(lambda key: make(key=key), jax.random.key(0))


@pytest.fixture
def on_gpu() -> Iterator[None]:
    """As on a machine that launches kernels."""
    with availability.use("fused"):
        yield


WITH_KERNELS = [
    "team", "team_plus", "triplet_gmpnn", "triplet_mpnn", "triplet_pgn", "triplet_gpgn", "mpnn", "gmpnn", "pgn", "gpgn",
    "deepsets", functools.partial(TEAM, gated=False),
]  # fmt: skip


@pytest.mark.parametrize("processor", WITH_KERNELS, ids=str)
def test_what_has_kernels_runs_in_them(processor: Any, on_gpu: None) -> None:
    found = accelerate(shapes(processor))
    assert found.fast and found.form is not None and str(found) == "runs in fused kernels"
    assert found.report == {"fast": True, "reason": "", "parts": {"processor": "fast", "decoders": "fast"}}


def test_without_a_gpu_the_plain_formulas_run() -> None:
    for network_or_layer in (shapes(), narkit.TripletEdgeAttention(128, key=jax.random.key(0))):
        with availability.use("plain"):
            found = accelerate(network_or_layer)
        assert found.form is None and not found.fast and "NARKIT_KERNELS=plain" in found.reason
    if jax.default_backend() == "cpu":
        assert accelerate(shapes()).report["reason"] == "JAX runs on no NVIDIA GPU here"


def test_another_width_and_other_things_run_plain(on_gpu: None) -> None:
    narrow = accelerate(shapes(hidden_size=64))
    assert narrow.form is None and narrow.reason == "the kernels are written for a hidden size of 128, not 64"
    heads = accelerate(shapes(functools.partial(TEAM, num_heads=2)))
    assert heads.report["parts"] == {"processor": "the kernels are written for one head, not 2", "decoders": "fast"}
    memnet = accelerate(shapes("memnet"))
    assert str(memnet) == "runs in fused kernels (decoders) and by plain formulas (processor: Memnet has no kernels)"
    layer = accelerate(narkit.TripletEdgeAttention(64, key=jax.random.key(0)))
    assert layer.form is None and "128, not 64" in layer.reason
    unknown = accelerate(jax.nn.relu)
    assert unknown.form is None and "expected a narkit.Reasoner or narkit.TripletEdgeAttention" in unknown.reason


@pytest.mark.parametrize(
    "options",
    [
        {"reads": "both"}, {"scale": "log"}, {"third_edges": "from"}, {"values_of": "receiver"},
        {"both_directions": True}, {"values_of_kj": True}, {"residual": True}, {"maxima": 8}, {"latents": True},
        {"norm": True}, {"norm": True, "gated": False}, {"gated": False, "residual": True},
    ],
    ids=str,
)  # fmt: skip
def test_options_of_team_have_kernels(options: dict[str, Any], on_gpu: None) -> None:
    reasoner = shapes(functools.partial(TEAM, **options))
    assert accelerate(reasoner).fast
    bound = eqx.filter_eval_shape(lambda r: accelerate(r).form(r, "bfs"), reasoner)
    assert type(bound.processor).__name__ == "FusedLatentStep"


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"norm": True, "latents": True}, "latents behind a LayerNorm that decoders read have no kernels"),
        ({"maxima": 4}, "written for 8 maxima per edge, not 4"),
        ({"num_heads": 2, "latents": True}, "written for one head, not 2"),
    ],
    ids=str,
)
def test_other_options_of_team_run_plain(options: dict[str, Any], reason: str, on_gpu: None) -> None:
    assert reason in accelerate(shapes(functools.partial(TEAM, **options))).plain["processor"]


def test_the_layer_on_its_own_runs_plain_with_options(on_gpu: None) -> None:
    for options in ({"both_directions": True}, {"residual": True}, {"reads": "both"}, {"scale": "log"}, {"maxima": 8}):
        layer = narkit.TripletEdgeAttention(128, **options, key=jax.random.key(0))  # type: ignore[arg-type]
        assert "the layer on its own has no kernels with the option" in accelerate(layer).reason


class Doubled(TEAM):
    """A subclass that computes something else, with no field of its own."""

    def bind(self, bases: Any) -> Any:
        return super().bind(eqx.tree_at(lambda b: b.node.directions, bases, replace_fn=lambda x: 2 * x))


class OwnLinear(Linear):
    """A subclass deep inside a network."""


def test_a_subclass_runs_plain_and_says_so(on_gpu: None) -> None:
    found = accelerate(shapes(Doubled))
    assert not found.fast
    assert found.plain == {"processor": "Doubled is a subclass of TEAM, and only TEAM itself has kernels"}
    reasoner = shapes(Doubled)
    bound = eqx.filter_eval_shape(lambda r: found.form(r, "bfs"), reasoner)
    assert type(bound.processor).__name__ == "PlainProcessor"  # which runs its own formulas

    own = object.__new__(OwnLinear)
    plain = shapes()
    linear = plain.processor.message_passing.graph  # type: ignore[attr-defined]
    object.__setattr__(own, "weight", linear.weight)
    object.__setattr__(own, "bias", linear.bias)
    found = accelerate(eqx.tree_at(lambda r: r.processor.message_passing.graph, plain, own))
    assert found.plain == {"processor": "OwnLinear is a subclass of Linear, and only Linear itself has kernels"}


def test_an_added_field_runs_plain_and_says_so(on_gpu: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if TEAM had got the field `message_passing`, and the layer `slope`, since its kernels were written."""
    monkeypatch.setitem(recognition.KNOWN_FIELDS, TEAM, {"attention", "latent_size"})
    found = accelerate(shapes())
    assert found.plain == {"processor": "TEAM has the option message_passing=MessagePassing, which no kernel knows"}
    monkeypatch.undo()
    known = recognition.KNOWN_FIELDS[narkit.TripletEdgeAttention] - {"slope"}
    monkeypatch.setitem(recognition.KNOWN_FIELDS, narkit.TripletEdgeAttention, known)
    layer = narkit.TripletEdgeAttention(128, slope=0.2, key=jax.random.key(0))
    assert accelerate(layer).reason == "TripletEdgeAttention has the option slope=0.2, which no kernel knows"
    monkeypatch.undo()
    monkeypatch.setitem(recognition.KNOWN_FIELDS, Unrolling, {"reprediction"})
    forced = accelerate(shapes(), Unrolling(teacher_forcing=0.5))
    assert forced.form is None and "teacher_forcing=0.5" in forced.reason


def test_an_added_field_that_is_off_is_no_obstacle(on_gpu: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if networks without a gate had been all there was: `gate` is new, and None."""
    known = recognition.KNOWN_FIELDS[recognition.MessagePassing] - {"gate"}
    monkeypatch.setitem(recognition.KNOWN_FIELDS, recognition.MessagePassing, known)
    assert accelerate(shapes("triplet_mpnn")).fast
    assert "gate=Gate, which no kernel knows" in accelerate(shapes("triplet_gmpnn")).plain["processor"]
    known = recognition.KNOWN_FIELDS[narkit.TripletEdgeAttention] - {"slope"}  # as if new, and with its default
    monkeypatch.setitem(recognition.KNOWN_FIELDS, narkit.TripletEdgeAttention, known)
    assert accelerate(narkit.TripletEdgeAttention(128, key=jax.random.key(0))).fast


@pytest.fixture
def edited_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of the package's formulas that a test may edit, in place of the package."""
    shutil.copytree(formulas.SOURCE / "models", tmp_path / "models")
    monkeypatch.setattr(formulas, "SOURCE", tmp_path)
    _forget()
    yield tmp_path / "models"
    monkeypatch.undo()
    _forget()


def _forget() -> None:
    formulas._changed.cache_clear()
    formulas._read.cache_clear()


def _edit(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text, f"{file.name} no longer has {old!r}"
    file.write_text(text.replace(old, new, 1))
    _forget()


def test_an_edited_formula_is_refused(edited_source: Path, on_gpu: None) -> None:
    assert accelerate(shapes()).fast
    file = edited_source / "triplet_edge_attention.py"
    _edit(file, "return weights[0] @ values", "return weights[0] @ values + values")
    found = accelerate(shapes())
    formula = "narkit.models.triplet_edge_attention.TripletEdgeAttention"
    assert list(found.plain) == ["processor"]
    assert f"the formula {formula} is no longer the one" in found.reason and "renew_formulas.py" in found.reason
    assert accelerate(narkit.TripletEdgeAttention(128, key=jax.random.key(0))).form is None
    assert accelerate(shapes("triplet_gmpnn")).fast  # which has no part in it


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("layers.py", "LAYER_NORM_EPSILON = 1e-5", "LAYER_NORM_EPSILON = 1e-4"),
        ("processors/message_passing.py", "update + (1.0 - openness) * hidden", "update + hidden"),
        ("processors/team.py", "hidden, self.edge(latents), None", "hidden, latents, None"),
        ("triplet_formulas.py", "jnp.where(t > 0, t, slope * t)", "jnp.where(t > 0, t, slope)"),
        ("predictions.py", "return jax.nn.sigmoid(logits)", "return jax.nn.sigmoid(2 * logits)"),
        ("value_decoders.py", "linear(pooled) + graph", "linear(pooled) - graph"),
        ("pointer_decoders.py", "jnp.maximum(first[:, None]", "jnp.minimum(first[:, None]"),
    ],
)
def test_any_edit_is_seen(file: str, old: str, new: str, edited_source: Path, on_gpu: None) -> None:
    """Wherever it is: in a constant, a helper function, or a formula far from the processor."""
    _edit(edited_source / file, old, new)
    found = accelerate(shapes())
    assert not found.fast and f"narkit.models.{file[:-3].replace('/', '.')}." in found.reason


def test_comments_docstrings_and_initial_values_may_change(edited_source: Path, on_gpu: None) -> None:
    file = edited_source / "processors" / "message_passing.py"
    _edit(
        file,
        '"""The gate that moves the hidden state towards its update."""',
        '"""Another docstring."""  # and a comment',
    )
    _edit(file, "key=out, bias=INITIAL_GATE_BIAS", "key=out, bias=0.0")  # where a network starts is no formula
    assert accelerate(shapes()).fast


def test_a_formula_that_is_replaced_at_run_time_is_refused(on_gpu: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def instead(self: Any, scalars: Any, hidden: Any, edge_messages: Any, connected: Any) -> Any:
        return hidden

    monkeypatch.setattr(BoundMessagePassing, "__call__", instead)
    _forget()
    try:
        assert "BoundMessagePassing is no longer the one" in accelerate(shapes()).plain["processor"]
    finally:
        monkeypatch.undo()
        _forget()


def test_the_digests_are_those_of_the_formulas() -> None:
    changed = {part: formulas.changed(part) for part in formulas.ROOTS}
    assert not any(changed.values()), f"{changed}: {formulas.HOW_TO_RENEW}"


def test_training_and_prediction_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    """A network that has a fast form is trained, evaluated and used for predictions with it."""
    made = []

    def bind(reasoner: narkit.Reasoner, algorithm: str) -> network.BoundNetwork:
        made.append(algorithm)
        return reasoner.bind(algorithm)

    class Found:
        form = staticmethod(bind)

    asked = []
    monkeypatch.setattr(narkit.fused, "accelerate", lambda *arguments: asked.append(arguments) or Found())
    batch = narkit.sample("minimum", size=4, batch_size=2, seed=0)
    reasoner = narkit.Reasoner("minimum", "deepsets", 8, key=jax.random.key(0))
    jax.eval_shape(lambda r: narkit.predict(r, batch).outputs, reasoner)
    assert made == ["minimum"] and asked[0][1] == Unrolling()
    programs = Programs(TrainConfig(algorithms=("minimum",), processor="deepsets", hidden_size=8, seeds=(0,)))
    state = programs.initial_state()
    on_device = DeviceBatch.of(batch)
    jax.eval_shape(lambda p, b: programs._predict_all_seeds(p, b, False), state.parameters, on_device)
    assert made == ["minimum"] * 2
    loss = functools.partial(objective.loss, batch=on_device, bind=programs.acceleration.form)
    jax.eval_shape(loss, reasoner)
    assert made == ["minimum"] * 3


@needs_compiler
def test_the_probe_finds_kernels_that_are_launched_wrongly(monkeypatch: pytest.MonkeyPatch) -> None:
    with emulated():
        assert probe.run() is None
        assert jax.jit(lambda x: x if probe.run() is None else -x)(1.0) == 1.0  # inside a program, too
        right = launch.emulator
        assert right is not None
        monkeypatch.setattr(launch, "emulator", lambda *arguments: [0 * result for result in right(*arguments)])
        assert probe.run() == "XLA launched a kernel otherwise than expected: its results were wrong"

    def missing(*arguments: Any) -> Any:
        raise RuntimeError("no call target was found")

    monkeypatch.setattr(launch, "emulator", missing)
    assert "XLA could not launch a kernel" in str(probe.run())


def test_a_failing_probe_means_the_plain_formulas_and_one_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(availability.jax, "default_backend", lambda: "gpu")
    monkeypatch.setattr(availability.nvrtc, "available", lambda: True)
    monkeypatch.setattr(availability.launch, "compute_capability", lambda: 90)
    monkeypatch.setattr(availability.probe, "run", lambda: "the call target is missing")
    availability._refusal_of_machine.cache_clear()
    try:
        with pytest.warns(UserWarning, match="without fused kernels, several times slower: the call target is missing"):
            assert accelerate(shapes()).reason == "the call target is missing"
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert accelerate(shapes()).form is None
    finally:
        monkeypatch.undo()
        availability._refusal_of_machine.cache_clear()


@needs_compiler
def test_a_plain_processor_beside_fused_decoders_computes_its_own_formula() -> None:
    """The subclass above, in a network of kernels, equals itself without any."""
    batch = DeviceBatch.of(narkit.sample("minimum", size=4, batch_size=2, seed=0))
    key = jax.random.key(0)
    plain, other = narkit.Reasoner("minimum", "team", key=key), narkit.Reasoner("minimum", Doubled, key=key)
    expected = float(objective.loss(other, batch))
    with emulated():
        value = float(jax.jit(functools.partial(objective.loss, batch=batch, bind=accelerate(other).form))(other))
    assert value == pytest.approx(expected, rel=1e-3)
    assert not np.isclose(expected, float(objective.loss(plain, batch)), rtol=1e-3)
