"""Live comparison with an installed dm-clrs at the paper's width, on larger instances than the goldens'."""

import functools
import importlib.util
from pathlib import Path

import equinox as eqx
import jax
import pytest

import narkit
from narkit.interop.clrs import _arrays, _layers

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
    spec = importlib.util.spec_from_file_location("make_model_golden", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.without_noise()
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
