"""Sweeps through Ray's client (`ray://`), from outside of a cluster that was started with `ray start --head`."""

# pyright: reportMissingImports=false

import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from .on_ray import wait_for
from .test_sweep_processes import FILES, files_of, results, start

pytestmark = [pytest.mark.cluster, pytest.mark.filterwarnings("ignore")]  # Ray's own warnings are not ours to heed

RAY = (sys.executable, "-m", "ray.scripts.scripts")
OWN = """
import narkit
from narkit.models.processors import PROCESSORS

class Mine(PROCESSORS["mpnn"]):
    pass

narkit.PROCESSORS["mine"] = Mine
"""


def free_port() -> int:
    """Beyond those that Ray gives to workers."""
    while True:
        with socket.socket() as tried:
            tried.bind(("127.0.0.1", 0))
            if tried.getsockname()[1] > 20_000:
                return tried.getsockname()[1]


class Head:
    """`ray start --head`, with the server of Ray's client."""

    def __init__(self) -> None:
        self.port, self.client_port = free_port(), free_port()
        self.folder = tempfile.mkdtemp(prefix="ray-", dir="/tmp")  # short: it holds the names of sockets
        numbers = {"port": self.port, "ray-client-server-port": self.client_port, "num-cpus": 2}
        numbers["object-store-memory"] = 80 * 2**20
        options = [f"--{name}={number}" for name, number in numbers.items()]
        options += ["--include-dashboard=false", "--disable-usage-stats", f"--temp-dir={self.folder}"]
        with Path(self.folder, "head.log").open("w") as log:
            self.process = subprocess.Popen([*RAY, "start", "--head", "--block", *options], stdout=log, stderr=log)

    @property
    def address(self) -> str:
        return f"ray://127.0.0.1:{self.client_port}"

    def wait(self) -> None:
        """Until somebody listens."""
        for _ in range(600):
            assert self.process.poll() is None, Path(self.folder, "head.log").read_text()
            try:
                socket.create_connection(("127.0.0.1", self.client_port), timeout=1.0).close()
                return
            except OSError:
                time.sleep(0.2)
        raise AssertionError(Path(self.folder, "head.log").read_text())

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


@pytest.fixture(scope="module")
def new_head(environment: pytest.MonkeyPatch) -> Iterator[Callable[[], Head]]:
    """Starts heads with a token that those who come have to know, as clusters do that Ray has started."""
    environment.setenv("RAY_AUTH_MODE", "token")
    environment.setenv("RAY_AUTH_TOKEN", "0123456789abcdef" * 4)
    made: list[Head] = []

    def make() -> Head:
        made.append(Head())
        made[-1].wait()
        return made[-1]

    yield make
    for head in made:
        head.stop()


@pytest.fixture(scope="module")
def head(new_head: Callable[[], Head]) -> Head:
    return new_head()


def test_a_sweep_with_own_code(
    tiny_sweep: Path,
    tiny_arguments: list[str],
    program_cache: Path,
    head: Head,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The records of narkit's processor are those of a local sweep; the module of the user is found by the driver."""
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "own_processor.py").write_text(OWN)
    monkeypatch.chdir(tmp_path / "code")
    where = ["--systems", "mpnn,mine", "--on", "ray", "--address", head.address]
    with start(["--import", "own_processor", *tiny_arguments, *where], tmp_path / "out", program_cache) as process:
        assert process.stdout is not None
        printed = process.stdout.read()
    assert process.returncode == 0, printed
    assert "all cells are finished" in printed
    assert printed.count(" begins (") == printed.count(" done in ") == 4, printed
    assert " compiling\n" in printed or " training\n" in printed  # of each cell the latest is told
    assert results(tmp_path / "out" / "mpnn") == results(tiny_sweep)
    assert sorted(path.stem for path in (tmp_path / "out" / "mine").glob("*.json")) == ["bfs", "minimum"]


def test_ctrl_c_a_killed_worker_and_a_killed_driver(
    long_sweep: Path, long_arguments: list[str], program_cache: Path, head: Head, tmp_path: Path
) -> None:
    import psutil

    storage, folder = tmp_path / "storage", tmp_path / "out"
    arguments = [*long_arguments, "--on", "ray", "--address", head.address, "--storage", str(storage)]
    with start(arguments, folder, program_cache) as process:
        wait_for(process, " training")
        process.send_signal(signal.SIGINT)
        assert process.stdout is not None
        printed = process.stdout.read()
    assert process.returncode == 128 + signal.SIGINT, printed
    assert f"stopped; saved in {storage}" in printed
    with start(arguments, folder, program_cache) as process:
        printed = wait_for(process, " training")
        workers = [each for each in psutil.process_iter(["cmdline"]) if "ray::mpnn/" in str(each.info["cmdline"])]
        assert workers
        workers[0].kill()
        printed += wait_for(process, f"goes on from its last checkpoint in {storage}")
        process.kill()
    with start(arguments, folder, program_cache) as process:
        assert process.stdout is not None
        printed = process.stdout.read()
    assert process.returncode == 0, printed
    assert "all cells are finished" in printed
    assert results(folder) == results(long_sweep)
    assert files_of(folder) == FILES


def test_a_head_that_is_lost(
    long_arguments: list[str], program_cache: Path, new_head: Callable[[], Head], tmp_path: Path
) -> None:
    """The sweep ends with one line, and the cells are free for the next."""
    head = new_head()
    endless = ["steps=20000" if word.startswith("steps=") else word for word in long_arguments]
    arguments = [*endless, "--on", "ray", "--address", head.address]
    with start(arguments, tmp_path, program_cache) as process:
        wait_for(process, " training")
        head.process.send_signal(signal.SIGTERM)
        assert process.stdout is not None
        printed = process.stdout.read()
    assert process.returncode == 1, printed
    assert f"Error: the cluster {head.address} does not answer any more" in printed
    assert "what is written is intact, and the same command goes on" in printed


def test_who_does_not_know_the_token(
    tiny_arguments: list[str], program_cache: Path, head: Head, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RAY_AUTH_MODE")
    monkeypatch.delenv("RAY_AUTH_TOKEN")
    for address in (head.address, f"127.0.0.1:{head.port}"):
        with start([*tiny_arguments, "--on", "ray", "--address", address], tmp_path, program_cache) as process:
            assert process.stdout is not None
            printed = " ".join(process.stdout.read().replace("│", " ").split())
        assert process.returncode == 2, printed
        assert f"--address {address}: no cluster can be had there" in printed
        assert "asks for a token gets one with RAY_AUTH_MODE=token" in printed


def test_the_port_of_the_cluster_is_not_that_of_the_client(
    tiny_arguments: list[str], program_cache: Path, head: Head, tmp_path: Path
) -> None:
    address = f"ray://127.0.0.1:{head.port}"
    with start([*tiny_arguments, "--on", "ray", "--address", address], tmp_path, program_cache) as process:
        assert process.stdout is not None
        printed = " ".join(process.stdout.read().replace("│", " ").split())
    assert process.returncode == 2, printed
    assert "ray:// takes the port of Ray's client (10001" in printed


def test_auto_finds_the_address_in_the_environment_and_local_starts_its_own(
    tiny_sweep: Path,
    tiny_arguments: list[str],
    program_cache: Path,
    head: Head,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", f"127.0.0.1:{head.port}")
    for address in ("auto", "local"):
        folder = tmp_path / address
        with start([*tiny_arguments, "--on", "ray", "--address", address], folder, program_cache) as process:
            assert process.stdout is not None
            printed = process.stdout.read()
        assert process.returncode == 0, printed
        assert results(folder) == results(tiny_sweep)
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    with start([*tiny_arguments, "--on", "ray"], tmp_path / "nowhere", program_cache) as process:
        assert process.stdout is not None
        printed = " ".join(process.stdout.read().replace("│", " ").split())
    assert process.returncode == 2, printed
    assert "--address 127.0.0.1:1: nothing answers there" in printed
