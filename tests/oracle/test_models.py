"""Live comparison with an installed dm-clrs at the paper's width, on larger instances than the goldens'."""

import functools
import importlib.util
from pathlib import Path

import equinox as eqx
import jax
import pytest

import narkit
from narkit.interop.clrs import _arrays, _layers, to_haiku
from narkit.training.presets import preset

pytestmark = pytest.mark.oracle

SCRIPT = Path(__file__).parents[1] / "golden" / "make_model_golden.py"
HIDDEN, NODES, BATCH = 128, 6, 2
ONE_OF_EACH_CATEGORY = (
    "find_maximum_subarray_kadane",
    "matrix_chain_order",
    "graham_scan",
    "mst_prim",
    "task_scheduling",
    "quickselect",
    "quicksort",
    "kmp_matcher",
)
PAIRS = [("triplet_gmpnn", name) for name in narkit.ALGORITHMS]
PAIRS += [(processor, name) for processor in ("mpnn", "pgn") for name in ONE_OF_EACH_CATEGORY]


@pytest.fixture(scope="module")
def reference():
    """The script that makes the goldens, as a module, with dm-clrs's noise switched off."""
    pytest.importorskip("clrs", reason="needs dm-clrs: pip install 'narkit[oracle]'")
    module = module_of(SCRIPT)
    module.without_noise()
    return module


def module_of(script):
    spec = importlib.util.spec_from_file_location(script.stem, script)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# TensorFlow, Haiku and dm-clrs warn of things that are not ours to mend.
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize(("processor", "name"), PAIRS)
def test_network_equals_dm_clrs(processor, name, reference, compare_with_reference, record_property):
    # In float64: among millions of maxima at this width some are so close that the rounding of float32 decides them,
    # and with them which weights get the gradient. The goldens compare in float32.
    with jax.enable_x64(True):
        case = jax.device_get(reference.reference_case(name, processor, HIDDEN, NODES, BATCH, seed=100))
        largest = compare_with_reference(name, processor, case)
    record_property("largest difference", largest)
    print(f"{processor} {name}: {largest:.1e}")


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("forcing", [0.0, 1.0])
@pytest.mark.parametrize("processor", ["mpnn", "pgn"])
@pytest.mark.parametrize("name", ["bfs", "minimum", "bellman_ford", "insertion_sort"])
def test_training_of_the_first_release_equals_dm_clrs(
    name, processor, forcing, reference, compare_with_reference, monkeypatch
):
    """Hints fed back hard, always forced or never: the preset `clrs2022` tosses a coin between the two."""
    options = {"hint_repred_mode": "hard", "hint_teacher_forcing": forcing}
    model = reference.baselines.BaselineModel
    monkeypatch.setattr(model, "__init__", functools.partialmethod(model.__init__, **options))
    with jax.enable_x64(True):
        case = jax.device_get(reference.reference_case(name, processor, HIDDEN, NODES, BATCH, seed=100))
        compare_with_reference(name, processor, case, reprediction="hard", teacher_forcing=forcing)


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize(
    ("processor", "name", "forcing"),
    [("mpnn", "minimum", 0.0), ("pgn", "bfs", 0.0), ("pgn", "minimum", 1.0), ("mpnn", "bfs", 1.0)],
)
def test_first_steps_of_training_equal_dm_clrs(processor, name, forcing, steps=4):
    """From the same weights on the same batches, step after step: batches, losses, gradients and Adam are the same.

    Only the first ones: later a hint that is fed back may be so close that rounding decides it, and Adam takes as large
    a step along a gradient that is nothing but rounding.
    """
    pytest.importorskip("clrs", reason="needs dm-clrs: pip install 'narkit[oracle]'")
    script = module_of(Path(__file__).parents[2] / "benchmarks" / "against_dm_clrs.py")
    options = {"hidden_size": 16, "steps": steps, "teacher_forcing": forcing, "validate_every": 1, "test": False}
    config = preset("clrs2022", algorithms=name, processor=processor, seeds=(0,), **options)
    ours = [point.train_loss[0] for point in narkit.train(config).curve]

    model, train, _ = script.network_of_dm_clrs(processor, name, 16, True, forcing)
    model.init(script.chosen(train, range(32)).features, 0)
    model.params = to_haiku(narkit.Reasoner([name], processor, 16, key=jax.random.key(0)))
    model.opt_state = model.opt.init(model.params)
    key = jax.random.PRNGKey(0)
    theirs = [float(model.feedback(key, script.batch_of_step(train, 0, step))) for step in range(steps)]
    print(f"{processor} {name}: {max(abs(a - b) for a, b in zip(ours, theirs, strict=True)):.1e}")
    assert ours == pytest.approx(theirs, rel=1e-4)


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("hints", ["encoded", "decoded", "none"])
def test_names_and_shapes_of_several_algorithms(hints, reference):
    """The numbering of modules when several algorithms share a processor, and without hints."""
    baselines, processors = reference.baselines, reference.processors

    names = ["bfs", "insertion_sort", "matrix_chain_order"]
    made = [reference.feedback(name, NODES, BATCH, seed=0) for name in names]
    model = baselines.BaselineModel(
        spec=[spec for spec, _ in made],
        dummy_trajectory=[batch for _, batch in made],
        processor_factory=processors.get_processor_factory("triplet_gmpnn", use_ln=True, nb_triplet_fts=8, nb_heads=1),
        hidden_dim=HIDDEN,
        encode_hints=hints == "encoded",
        decode_hints=hints != "none",
    )
    features = [batch.features for _, batch in made]
    calls = {"algorithm_index": -1, "return_hints": False, "return_all_outputs": False}
    theirs = jax.eval_shape(lambda: model.net_fn.init(jax.random.PRNGKey(0), features, True, **calls))
    ours = eqx.filter_eval_shape(
        lambda key: narkit.Reasoner(names, "triplet_gmpnn", HIDDEN, hints, key=key), jax.random.key(0)
    )
    shapes = {
        name: {key: array.shape for key, array in _arrays(layer).items()} for name, layer in _layers(ours).items()
    }
    assert shapes == {name: {key: array.shape for key, array in layer.items()} for name, layer in theirs.items()}
