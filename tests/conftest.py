"""What all tests share. Shapes and types of the models and kernels are checked at run time."""

import gc
import importlib
import json
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from .compiled import FOLDER, optimise_functions_little, share_compiled_programs
from .killing import Starter, environment_of


def _check_shapes() -> None:
    """Checks types and shapes at run time, of these packages only: the hook would break Numba's decorators.

    `formulas` reads source files and has no shapes. Its walk over their syntax, a call for every node, would be most of
    what the checks cost.
    """
    from jaxtyping import install_import_hook

    finder: Any = install_import_hook(["narkit.models", "narkit.loops", "narkit.fused"], "beartype.beartype").hook
    is_checked = finder.should_instrument
    finder.should_instrument = lambda name: name != "narkit.fused.formulas" and is_checked(name)
    # Now, and not from a module that is checked: what such a one imports is looked for among the bytecode with checks.
    importlib.import_module("narkit.fused.formulas")


def _share_contexts() -> None:
    """Lets the programs of a thread share what MLIR builds them in, which JAX makes anew for each.

    Tests have thousands of tiny programs, of which that took a quarter of the time.
    """
    from jax._src.interpreters import mlir

    make: Callable[[], Any] | None = getattr(mlir, "make_ir_context", None)
    if make is not None:  # nothing promises that JAX keeps it
        mlir.make_ir_context = _once_for_each_thread(make)


def _once_for_each_thread(make: Callable[[], Any]) -> Callable[[], Any]:
    kept = threading.local()

    def get() -> Any:
        if not hasattr(kept, "value"):
            kept.value = make()
        return kept.value

    return get


share_compiled_programs()  # before JAX and Numba are imported
optimise_functions_little()
_check_shapes()
_share_contexts()


# Files that take longest, the longest first. Where workers share the files (`make test`), they begin with these, so
# that in the end none waits for another.
LONGEST = (
    *("fused/test_fused.py", "models/test_contracts.py", "sweeps/test_sweep_processes.py"),
    *("fused/test_fused_team_options.py", "fused/test_fused_damping.py", "interop/test_clrs.py"),
    *("fused/test_fused_latent_step.py", "models/test_interfaces.py", "models/test_attention_options.py"),
    *("training/test_resuming.py", "sweeps/test_sweep.py", "training/test_training.py", "training/test_commands.py"),
    *("models/test_growing_hints.py", "report/test_report.py", "fused/test_fused_edge_attention.py"),
    *("fused/test_accelerate.py", "fused/test_fused_triplets.py", "test_cli.py", "report/test_documents.py"),
    *("models/test_triplet_edge_attention.py", "algorithms/test_graph_connectivity.py", "sweeps/test_checks.py"),
    *("test_users_code.py", "algorithms/test_dynamic_programming.py", "algorithms/test_graph_paths.py"),
    *("models/test_network.py", "models/test_one_file.py", "sweeps/test_executors.py", "fuzz/test_fuzz.py"),
)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if hasattr(config, "workerinput"):
        places = {Path(__file__).parent / name: place for place, name in enumerate(LONGEST)}
        items.sort(key=lambda item: places.get(item.path, len(places)))


def pytest_collection_finish() -> None:
    """Lets Python look for garbage less often, and not among what was imported: tracing makes many objects, and the
    search took a tenth of the time."""
    gc.freeze()
    gc.set_threshold(200_000, 20, 50)


@pytest.fixture(scope="session")
def release_programs() -> Callable[[], None]:
    """Lets go of compiled programs where they are many: a process that keeps all runs out of memory mappings."""
    return _release_programs


def _release_programs() -> None:
    if "jax" in sys.modules and _mappings() > MOST_MAPPINGS:
        sys.modules["jax"].clear_caches()
        gc.collect()


MOST_MAPPINGS = 20_000  # of 65,530, beyond which Linux lets a process have no more


def _mappings() -> int:
    maps = Path("/proc/self/maps")
    return maps.read_bytes().count(b"\n") if maps.exists() else 0


@pytest.fixture(scope="session")
def program_cache() -> Path:
    """Where the compiled programs of all tests are kept, also those of processes that tests start."""
    return FOLDER / "programs"


@pytest.fixture(scope="session")
def starter(program_cache: Path) -> Iterator[Starter]:
    """Starts processes that use this source tree and these compiled programs, and have imported everything already."""
    with Starter(environment_of(program_cache)) as starter:
        yield starter


@pytest.fixture
def kept_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs of the same configuration share their programs, which each would trace anew: most of what a tiny run takes.

    For tests of what is saved, resumed and shown. Runs of fixtures with a wider scope still trace their own.
    """
    monkeypatch.setattr("narkit.training.trainer.Programs", _kept_programs)


_PROGRAMS: dict[str, Any] = {}


def _kept_programs(config: Any, devices: int = 1) -> Any:
    from narkit.training.programs import Programs

    name = json.dumps([config.to_json(), devices], sort_keys=True)
    if name not in _PROGRAMS:
        _PROGRAMS[name] = Programs(config, devices)
    return _PROGRAMS[name]


@pytest.fixture(autouse=True, scope="module")
def _after_each_file(release_programs: Callable[[], None]) -> Iterator[None]:
    yield
    _PROGRAMS.clear()
    release_programs()


@pytest.fixture(scope="session")
def compare_with_reference() -> Callable[..., float]:
    """Compares our network with what dm-clrs computed (see `tests/golden/make_model_golden.py`).

    Logits of outputs and of hints at every step, the loss, its gradient and the score must agree; with true hints in
    place of predicted ones (`teacher_forcing=1.0`) the loss and its gradient, as there the logits are not those of
    training. Returns the largest difference of a number, relative to one plus its size.
    """
    return _compare_with_reference


def _compare_with_reference(name: str, processor: str, case: dict, **options: Any) -> float:
    import equinox as eqx
    import jax.numpy as jnp
    import numpy as np

    import narkit
    from narkit.models.network import DeviceBatch
    from narkit.models.objective import hint_losses, output_losses
    from narkit.models.predictions import decode_outputs
    from narkit.models.unrolling import Unrolling, unroll

    parts = {part: case[part] for part in ("inputs", "hints", "outputs")}
    batch = narkit.Batch(algorithm=name, **parts, lengths=np.asarray(case["lengths"]).astype(int))
    on_device = DeviceBatch.of(batch)
    reasoner = narkit.interop.clrs.from_haiku(name, case["parameters"], processor)

    @eqx.filter_jit
    @eqx.filter_value_and_grad(has_aux=True)
    def run(reasoner):  # the loss is put together here so that one program gives the logits too
        outputs, hints = unroll(reasoner, on_device, options=Unrolling(**options), training=True)
        losses = output_losses(on_device, outputs) | hint_losses(on_device, hints)
        return sum(losses.values(), jnp.zeros(())), (outputs, hints)

    (loss, (outputs, hints)), gradient = run(reasoner)
    _release_programs()
    score = narkit.evaluate(name, decode_outputs(batch.spec, outputs), batch)["score"]
    largest = 0.0
    ours = {
        "output logits": outputs,
        "hint logits": hints,
        "loss": loss,
        "gradient": narkit.interop.clrs.to_haiku(gradient),
        "score": score,
    }
    if options.get("teacher_forcing"):
        ours = {part: ours[part] for part in ("loss", "gradient")}
    # dm-clrs may pad a batch beyond its longest sample; there its network runs on, to no effect, and ours stops.
    steps = max(1, int(batch.lengths.max()) - 1)
    theirs = {part: case[part] for part in ours}
    for part in (ours, theirs) if "hint logits" in ours else ():
        part["hint logits"] = {name: values[:steps] for name, values in part["hint logits"].items()}
    for where, value, expected in _pairs(ours, theirs):
        value, expected = np.asarray(value), np.asarray(expected)
        assert value.shape == expected.shape, where
        counts = np.abs(expected) < 1e5  # all but the diagonals of Sinkhorn's result
        value, expected = value[counts], expected[counts]
        np.testing.assert_allclose(value, expected, rtol=1e-4, atol=1e-4, err_msg=where)
        largest = max(largest, float(np.max(np.abs(value - expected) / (1 + np.abs(expected)), initial=0.0)))
    return largest


def _pairs(ours: Any, theirs: Any, where: str = "") -> Iterator[tuple[str, Any, Any]]:
    """The leaves of two nested dictionaries, which must have the same keys."""
    if isinstance(theirs, dict):
        assert set(ours) == set(theirs), where
        for key in theirs:
            yield from _pairs(ours[key], theirs[key], f"{where} {key}")
    else:
        yield where, ours, theirs
