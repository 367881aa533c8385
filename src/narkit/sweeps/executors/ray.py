"""Cells as tasks of Ray, on one machine or many. Nobody needs a shared disk: a worker hands the files of its finished
cell back, and this process writes them.

Ray decides where a cell runs, by what it asks for; it knows which machines there are, and when one is lost.
"""

from __future__ import annotations

import contextlib
import math
import os
import pickle
import socket
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit

from narkit import machine
from narkit.sweeps.cells import Cell, Claim, State, SweepError
from narkit.sweeps.executor import CellOutcome, Context, Ended, Executor, Failure, Task
from narkit.sweeps.executors import resources, software
from narkit.sweeps.executors.cluster_worker import ClusterAssignment, Mailbox, Result, run_assignment
from narkit.sweeps.executors.resources import Request
from narkit.sweeps.executors.sources import ShippedCode
from narkit.sweeps.executors.storage import Storage
from narkit.sweeps.memory import predicted_memory
from narkit.sweeps.user_code import UserCode

try:
    import ray  # pyright: ignore[reportMissingImports]
    from ray import cloudpickle, exceptions  # pyright: ignore[reportMissingImports]
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy  # pyright: ignore[reportMissingImports]
except ImportError as error:
    raise SweepError(
        f"expected Ray for --on ray, which is not installed ({error}); `pip install 'narkit[ray]'` does"
    ) from None

LOCAL, AUTO = "local", "auto"
MOST_TRIES = 5  # of a cell that loses its worker or its machine
AHEAD = 0.25  # share of cells that wait in Ray's queue beyond those that run, so that no machine waits for this process
FEWEST_AHEAD = 2
TURN = 0.2  # seconds between two looks at what the workers have said
LOOK_AT_CLUSTER = 2.0  # seconds between two looks at the machines
TO_SAVE, TO_STOP = 60.0, 10.0  # seconds that cells are given to end, with a storage and without
REACHABLE = 10.0  # seconds to wait for an address
DESCRIBED = 120.0  # seconds to wait until every machine has said what is installed there
LONGEST = 300  # characters of an error of Ray
SMALLEST_SHARE = 0.01  # of a GPU that a cell can be given
TOKENS = "RAY_AUTH_MODE"  # Ray's own variable: whether it sends a token to clusters


@dataclass
class _Submission:
    """A cell in the hands of Ray."""

    cell: Cell
    claim: Claim
    alone: bool
    tries: int = 1
    has_begun: bool = False  # as far as this process has heard


class Ray(Executor):
    """A cluster.

    - `address`: `auto` for the one that runs on this machine (or that RAY_ADDRESS names), `local` to start one here,
      `HOST:PORT` or `ray://HOST:PORT` for another.
    - `gpus_per_cell`: a number or a share; by default one if the cluster has any. A cell that is predicted to need more
      memory than its share has gets a larger one.
    - `storage`: where checkpoints go, a path that all machines see or a URL that fsspec knows. Without it a cell that
      loses its machine starts again.
    - `work`: the function that workers run, for measurements.
    """

    slots = 2  # or more, as soon as the cluster is known; never a single one, for which cells are ordered otherwise

    def __init__(
        self,
        address: str = AUTO,
        *,
        gpus_per_cell: float | None = None,
        storage: str | None = None,
        work: Callable[[ShippedCode, bytes, Any], Result] = run_assignment,
    ):
        check_gpus(gpus_per_cell)
        if address == AUTO:  # looked up as Ray does
            address = os.environ.get("RAY_ADDRESS") or AUTO
        self.address, self.gpus_per_cell, self.work = address, gpus_per_cell, work
        # Workers have other working folders, so a path has to be whole.
        self.storage = storage if storage is None or "://" in storage else os.path.abspath(storage)
        self.submissions: dict[Any, _Submission] = {}
        self.is_ours = False  # whether to disconnect at the end
        self.mailbox: Any = None
        self.messages: Any = None  # requested from the mailbox

    def open(self, context: Context) -> None:
        self.context = context
        self._connect()
        self._look_at_cluster()
        self.gpus = self._chosen_gpus()
        self.threads = context.options.threads or resources.default_threads(self.machines, self.gpus)
        self._check_machines()
        self._check_software()
        self.options = replace(context.options, threads=self.threads)
        self.commit = machine.commit()
        # A process that has used a GPU keeps some of its memory, so it runs one cell only.
        self.task: Any = ray.remote(max_retries=0, max_calls=1 if self.gpus else 0)(_as_function(self.work))
        head = next((node["NodeID"] for node in self.nodes if "node:__internal_head__" in node["Resources"]), None)
        place = NodeAffinitySchedulingStrategy(head, soft=True) if head else "DEFAULT"
        actor = ray.remote(num_cpus=0, max_restarts=-1)(Mailbox)
        self.mailbox = actor.options(scheduling_strategy=place).remote()
        self.code = ray.put(ShippedCode.of(UserCode.of(context.cells)))
        self.slots = self._window()

    # Getting ready.

    def _connect(self) -> None:
        if ray.is_initialized():
            return
        if self.address not in (LOCAL, AUTO):
            check_reachable(self.address)
        options: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
        if self.address == LOCAL:
            options["include_dashboard"] = False
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # what they say, the error says
                ray.init(address=self.address, **options)
        except (ConnectionError, RuntimeError, ValueError, exceptions.RayError) as error:
            raise SweepError(
                f"--address {self.address}: no cluster can be had there ({_in_one_line(error)}); {self._hint()}"
            ) from None
        self.is_ours = True

    def _hint(self) -> str:
        """Says what to look at where no cluster can be had."""
        if self.address == AUTO:
            return "expected one that was started with `ray start`; `--address local` starts Ray for this sweep alone"
        if self.address == LOCAL:
            return "expected to start one here"
        port = "HOST:PORT takes the port of `ray start --head` (6379, where nothing else was said)"
        if self.address.startswith("ray://"):
            port = "ray:// takes the port of Ray's client (10001, where `ray start --head` says nothing else)"
        token = f"; a cluster that asks for a token gets one with {TOKENS}=token" if TOKENS not in os.environ else ""
        return port + token

    def _look_at_cluster(self) -> None:
        self.nodes = resources.alive(ray.nodes())
        self.machines: list[Mapping[str, float]] = [node["Resources"] for node in self.nodes]
        self.looked_at = time.monotonic()

    def _chosen_gpus(self) -> float:
        available = sum(machine.get(resources.GPU, 0.0) for machine in self.machines)
        devices = self.context.options.devices
        gpus = self.gpus_per_cell
        if gpus is None:
            gpus = float(devices) if available else 0.0
        elif gpus and not available:
            number = "1 machine" if len(self.machines) == 1 else f"{len(self.machines)} machines"
            raise SweepError(
                f"--gpus-per-cell {gpus:g}: expected a cluster with GPUs, got {number} without any; "
                "start one with a GPU first, or give --gpus-per-cell 0"
            )
        if gpus < devices > 1:
            given = "" if gpus else ", since a cell on CPUs has one device"
            raise SweepError(f"--devices {devices}: expected at least as many GPUs per cell, got {gpus:g}{given}")
        return gpus

    def _check_machines(self) -> None:
        least = Request(self.gpus, self.threads)
        if not resources.cells_that_fit(self.machines, least):
            found = ", ".join(
                f"{machine.get(resources.CPU, 0.0):g} CPUs and {machine.get(resources.GPU, 0.0):g} GPUs"
                for machine in self.machines
            )
            raise SweepError(
                f"a cell asks for {least.cpus:g} CPUs and {least.gpus:g} GPUs, which no machine of the cluster has: "
                f"{found or 'there is none'}; give fewer with --threads and --gpus-per-cell"
            )

    def _check_software(self) -> None:
        """Refuses machines on which cells could not run, or would run other code."""
        cloudpickle.register_pickle_by_value(software)  # narkit need not be installed where it runs
        try:
            task: Any = ray.remote(num_cpus=0, max_retries=2)(software.describe)
            places = [NodeAffinitySchedulingStrategy(node["NodeID"], soft=True) for node in self.nodes]
            asked = [task.options(scheduling_strategy=place).remote(self.storage) for place in places]
            found = ray.get(asked, timeout=DESCRIBED)
        except exceptions.RayError as error:
            raise SweepError(f"the machines of the cluster do not answer: {_in_one_line(error)}") from None
        finally:
            cloudpickle.unregister_pickle_by_value(software)
        self.software = software.describe()
        for each in found:
            if (differs := software.difference(self.software, each)) is not None:
                raise SweepError(differs)
            if (why := each.get("storage_error")) is not None:
                raise SweepError(
                    f"--storage {self.storage}: expected a place that every machine can write to, but on "
                    f"{each['machine']} that fails: {why}"
                )
        sizes = [int(each["gpu_memory"]) for each in found]
        self.gpu_memory = min((size for size in sizes if size), default=0)

    # Cells.

    def has_room(self) -> bool:
        return len(self.submissions) < self.slots

    def start(self, task: Task) -> Ended | None:
        directory = self.context.directory
        # Looked at first, since asking for the claim of a cell that another sweep has takes a while.
        claim = None if directory.state(task.cell) is State.RUNNING else directory.claim(task.cell)
        if claim is None:
            return Ended(task.cell, CellOutcome.TAKEN)
        directory.forget_failure(task.cell)
        self._submit(_Submission(task.cell, claim, task.alone))
        return None

    def _submit(self, submission: _Submission) -> None:
        request = self._request(submission.cell, submission.alone)
        cell, ends_at = submission.cell, self.context.ends_at
        assignment = ClusterAssignment(
            cell, self.options, ends_at, self.storage, self.software, self.commit, request.gpus
        )
        task = self.task.options(**request.options(), name=cell.name)
        self.submissions[task.remote(self.code, pickle.dumps(assignment), self.mailbox)] = submission

    def _request(self, cell: Cell, alone: bool) -> Request:
        """Returns the request of a cell; alone, it is for a whole GPU or all threads of a machine."""
        if self.gpus:
            share = resources.share_of_gpu(self.gpus, predicted_memory(cell.config, "gpu"), self.gpu_memory)
            return Request(max(1.0, share) if alone else share, self.threads)
        if alone:
            return Request(0.0, max(machine.get(resources.CPU, 0.0) for machine in self.machines))
        memory = resources.host_memory(predicted_memory(cell.config, "cpu"), self.machines)
        return Request(0.0, self.threads, memory)

    def _window(self) -> int:
        """Returns how many cells Ray is given at a time: those that fit, and some more."""
        running = resources.cells_that_fit(self.machines, Request(self.gpus, self.threads))
        return max(2, running + max(FEWEST_AHEAD, int(AHEAD * running)))

    def wait(self) -> list[Ended]:
        try:
            return self._wait()
        except (ConnectionError, exceptions.RpcError, exceptions.RaySystemError) as error:
            raise ConnectionError(
                f"the cluster {self.address} does not answer any more ({_in_one_line(error)}); what is written is "
                "intact, and the same command goes on"
            ) from None

    def _wait(self) -> list[Ended]:
        while not self.context.stop:
            self._pass_on()
            ended = self._ended(TURN)
            if ended:
                return ended
            if time.monotonic() - self.looked_at >= LOOK_AT_CLUSTER:
                self._look_at_cluster()
                self.slots = self._window()
                if self.has_room():  # a machine has joined, or another sweep has let go of a cell
                    self.context.more()
        return []

    def _ended(self, seconds: float) -> list[Ended]:
        """Waits so long for cells to end, and handles all that have."""
        references = list(self.submissions)
        ready, _ = ray.wait(references, num_returns=1, timeout=seconds)
        if ready and len(references) > 1:
            ready, _ = ray.wait(references, num_returns=len(references), timeout=0)
        if ready:
            self._pass_on(TURN)
        found = [self._end(self.submissions.pop(reference), reference) for reference in ready]
        return [ended for ended in found if ended is not None]

    def _end(self, submission: _Submission, reference: Any) -> Ended | None:
        """Handles a cell that Ray has finished with; returns None if Ray was given it again."""
        cell = submission.cell
        try:
            result: Result = ray.get(reference)
        except exceptions.TaskCancelledError:
            result = Result(cell, CellOutcome.STOPPED)
        except exceptions.OutOfMemoryError as error:
            text = f"its worker ran out of memory: {_in_one_line(error)}"
            result = Result(cell, CellOutcome.FAILED, text, Failure.MEMORY)
        except exceptions.RayTaskError as error:
            # `run_cell` turns errors of a cell into results. This one came before it: narkit, the user's code or a
            # package that it needs cannot be imported there, and no other cell would fare better.
            lines = str(error).strip().splitlines() or [type(error).__name__]
            result = Result(cell, CellOutcome.CANNOT_GO_ON, f"its worker could not begin: {lines[-1]}")
        except exceptions.RayError as error:
            if submission.tries < MOST_TRIES and not self.context.stop:
                self._try_again(submission, error)
                return None
            text = f"its worker was lost {submission.tries} times, at last: {_in_one_line(error)}"
            result = Result(cell, CellOutcome.FAILED, text)
        return self._conclude(submission, result)

    def _try_again(self, submission: _Submission, error: Exception) -> None:
        saved = "starts again" if self.storage is None else f"goes on from its last checkpoint in {self.storage}"
        self.context.observer.remark(f"{submission.cell.name} lost its worker ({type(error).__name__}) and {saved}")
        submission.tries += 1
        self._submit(submission)

    def _conclude(self, submission: _Submission, result: Result) -> Ended:
        cell, claim, directory = submission.cell, submission.claim, self.context.directory
        if result.how is CellOutcome.FINISHED:
            directory.keep(cell, result.record, result.weights)
            claim.finish()
            if self.storage is not None:
                with contextlib.suppress(Exception):  # this machine may not see it
                    Storage(self.storage, cell).forget()
            return result
        said = result.error
        if result.how is CellOutcome.FAILED:
            directory.fail(cell, result.details or said)
        elif result.how is CellOutcome.STOPPED:  # what waited for a machine has not begun, and there is nothing to tell
            saved = "nothing was kept: there is no storage" if self.storage is None else f"saved in {self.storage}"
            said = f"stopped; {saved}" if submission.has_begun else ""
        elif result.how is CellOutcome.CANNOT_GO_ON:
            said = f"{cell.name}: {said}"
        claim.release()
        return replace(result, error=said)

    def _pass_on(self, seconds: float = 0.0) -> None:
        """Tells the observer what the workers have said, waiting so long for the mailbox."""
        if self.messages is None:
            self.messages = self.mailbox.take.remote()
        if not ray.wait([self.messages], timeout=seconds)[0]:
            return
        taken, self.messages = self.messages, None
        try:
            messages = ray.get(taken)
        except exceptions.RayError:  # the mailbox moves to another machine; only progress is lost
            return
        submissions = {submission.cell.name: submission for submission in self.submissions.values()}
        for name, method, arguments in messages:
            if name in submissions:  # else it comes too late
                submissions[name].has_begun = True
                getattr(self.context.observer, method)(submissions[name].cell, *arguments)

    def close(self) -> list[Ended]:
        """Has all cells stop, those that run after they have saved, and waits for them."""
        found = self._end_all() if ray.is_initialized() else []  # else it is lost; Ray would start another one here
        for submission in self.submissions.values():
            submission.claim.release()
        self.submissions.clear()
        if self.is_ours:
            ray.shutdown()
        return found

    def _end_all(self) -> list[Ended]:
        found: list[Ended] = []
        with contextlib.suppress(exceptions.RayError, ConnectionError):
            for reference in self.submissions:
                ray.cancel(reference)
            ends = time.monotonic() + (TO_STOP if self.storage is None else TO_SAVE)
            while self.submissions and time.monotonic() < ends:
                found += self._ended(TURN)
            for reference in self.submissions:
                ray.cancel(reference, force=True)
            if self.mailbox is not None:
                ray.kill(self.mailbox)
        return found


def check_gpus(number: float | None) -> None:
    """Raises for numbers of GPUs that Ray does not give out."""
    if number is None or number == 0 or (number >= 1 and math.isfinite(number) and number == int(number)):
        return
    if not SMALLEST_SHARE <= number < 1:
        raise SweepError(
            f"--gpus-per-cell: expected 0, a share of one GPU from {SMALLEST_SHARE:g} to 1, or a whole number, got "
            f"{number:g}"
        )


def check_reachable(address: str) -> None:
    """Raises if nothing listens at an address, sooner than Ray would find out."""
    expected = f"--address: expected auto, local, HOST:PORT or ray://HOST:PORT, got {address!r}"
    parts = urlsplit(address if "://" in address else f"//{address}")
    try:
        host, port = parts.hostname, parts.port
    except ValueError:
        raise SweepError(expected) from None
    if not host or not port or parts.scheme not in ("", "ray") or parts.path:
        raise SweepError(expected)
    try:
        socket.create_connection((host, port), timeout=REACHABLE).close()
    except OSError as error:
        raise SweepError(
            f"--address {address}: nothing answers there ({error}); expected the head of a Ray cluster, started with "
            "`ray start --head`"
        ) from None


def _as_function(work: Callable[..., Result]) -> Callable[..., Result]:
    """Wraps `work` in a function: Ray takes nothing else, and `work` may be anything that can be called."""

    def run_cell(code: ShippedCode, assignment: bytes, mailbox: Any) -> Result:
        return work(code, assignment, mailbox)

    run_cell.__annotations__ = {}  # sent along, they would need this file there
    return run_cell


def _in_one_line(error: BaseException) -> str:
    """Shortens an error of Ray: no tables of how a machine's memory was used, and no stack traces."""
    lines = [line.strip() for line in str(error).strip().splitlines()]
    until = next((index for index, line in enumerate(lines) if not line), len(lines))
    text = " ".join(lines[:until])
    return (text if len(text) <= LONGEST else f"{text[:LONGEST]} ...") or type(error).__name__
