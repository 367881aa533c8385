"""The tests find mistakes: thirty and more are put into the source one at a time, and each makes some test fail."""

from collections.abc import Iterator

import pytest

from . import faults


def test_faults_are_of_the_source_as_it_is() -> None:
    """The text that a fault replaces occurs once. If this fails, let the fault in `tests/faults.py` follow."""
    assert len({fault.name for fault in faults.FAULTS}) == len(faults.FAULTS) >= 30
    for fault in faults.FAULTS:
        text = faults.place_of(fault).read_text()
        assert text.count(fault.right) == 1, f"{fault.name}: {fault.right!r} is not once in {fault.file}"
        assert fault.wrong != fault.right
        assert all((faults.ROOT / test.split("::")[0]).is_file() for test in fault.tests), fault.name


@pytest.fixture(scope="module")
def _copy() -> Iterator[None]:
    """A copy of the tree in which all those tests pass."""
    faults.make_copy()
    every = tuple(sorted({test for fault in faults.FAULTS for test in fault.tests}))
    done = faults.run_tests(every)
    assert done.returncode == 0, done.stdout[-3000:]
    yield


@pytest.mark.slow
@pytest.mark.usefixtures("_copy")
@pytest.mark.parametrize("fault", faults.FAULTS, ids=lambda fault: fault.name)
def test_a_fault_is_caught(fault: faults.Fault) -> None:
    assert faults.is_caught(fault), f"{fault.file} with {fault.wrong!r} passes {', '.join(fault.tests)}"
