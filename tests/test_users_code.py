"""An algorithm and a processor that a user registers keep to the same contracts as narkit's own.

They are those of the documentation, from modules outside the package: gnome sort (docs/adding_an_algorithm.md) and a
processor of mean messages (docs/guides/your_processor.md).
"""

import importlib.util
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import jax
import pytest

import narkit

from . import test_cli
from .data import test_batch, test_distribution, test_stream, test_transforms
from .models import test_contracts
from .report import test_picture

DOCS = Path(__file__).parents[1] / "docs"
ALGORITHM, PROCESSOR = "gnome_sort", "mean_messages"
CONTRACTS_OF_ALGORITHMS = [
    test_batch.test_types_are_compact_and_padding_is_zero,
    test_batch.test_raw_batches_can_be_built_by_hand,
    test_transforms.test_transformed_batch_follows_the_transformed_spec,
    test_distribution.test_stream_is_distributed_as_the_replayed_benchmark,
    test_stream.test_loops_release_the_gil,
    test_cli.test_every_run_can_be_followed,
    test_picture.test_every_algorithm_is_drawn_with_a_legend_of_its_hints,
]
CONTRACTS_OF_PROCESSORS = [
    test_contracts.test_gradients_are_finite_and_right,
    test_contracts.test_relabelling_permutes_the_predictions,
    test_contracts.test_padding_in_time_is_not_read,
    test_contracts.test_samples_do_not_read_each_other,
    test_contracts.test_no_second_compilation,
]


@pytest.fixture(scope="module", autouse=True)
def _users_code(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The code of the documentation as modules of a user's, whose names are known for the tests of this file."""
    folder = tmp_path_factory.mktemp("user")
    for page, name in (("adding_an_algorithm.md", "my_algorithms"), ("guides/your_processor.md", "my_processor")):
        found = re.search(rf"```python\n# {name}\.py\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)
        assert found is not None, page
        (folder / f"{name}.py").write_text(found[1])
        spec = importlib.util.spec_from_file_location(name, folder / f"{name}.py")
        assert spec is not None and spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)  # as an import would, since Numba's cache looks there
        spec.loader.exec_module(sys.modules[name])
    yield
    del sys.modules["my_algorithms"], sys.modules["my_processor"]
    del narkit.ALGORITHMS[ALGORITHM], narkit.PROCESSORS[PROCESSOR]


def test_they_are_not_of_the_package() -> None:
    assert narkit.ALGORITHMS[ALGORITHM].function.__module__ == "my_algorithms"
    assert issubclass(narkit.PROCESSORS[PROCESSOR], narkit.Processor)  # type: ignore[arg-type]


@pytest.mark.parametrize("contract", CONTRACTS_OF_ALGORITHMS, ids=lambda contract: contract.__name__)
def test_algorithm(contract: Callable[[str], None]) -> None:
    contract(ALGORITHM)


@pytest.fixture(scope="module", params=[(PROCESSOR, ALGORITHM), ("pgn", ALGORITHM), (PROCESSOR, "bfs")], ids="-".join)
def subject(request: pytest.FixtureRequest) -> test_contracts.Subject:
    return test_contracts.make_subject(request.param)


@pytest.mark.parametrize("contract", CONTRACTS_OF_PROCESSORS, ids=lambda contract: contract.__name__)
def test_processor(subject: test_contracts.Subject, contract: Callable[[test_contracts.Subject], None]) -> None:
    with jax.enable_x64(True):
        contract(subject)


def test_a_seed_among_others_is_the_seed_alone() -> None:
    with jax.enable_x64(True):
        test_contracts.test_a_padded_seed_in_a_vmap_equals_the_seed_alone((PROCESSOR, ALGORITHM))


def test_a_network_of_both_is_saved_and_read(tmp_path: Path) -> None:
    reasoner = narkit.Reasoner(ALGORITHM, PROCESSOR, 8, key=jax.random.key(0))
    narkit.save(reasoner, tmp_path / "mine.safetensors")
    batch = narkit.sample(ALGORITHM, size=5, batch_size=2, seed=0)
    again = narkit.predict(narkit.load(tmp_path / "mine.safetensors"), batch)
    assert (again.outputs["pred"] == narkit.predict(reasoner, batch).outputs["pred"]).all()
