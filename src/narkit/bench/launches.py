"""Counts what a compiled program launches on a GPU, from the text of its optimised HLO.

A training step is one program with two loops over time, the first forward and the second backward. Every operation in
the body of a loop that is not bookkeeping is launched once per processor step. A call into a library (`custom-call`:
a product by cuBLAS, a sort) counts as one, although it may launch more than one kernel inside.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

# Operations that only name or rearrange what is in memory already.
BOOKKEEPING = frozenset(
    (
        "parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all", "add-dependency", "opt-barrier",
        "optimization-barrier", "domain", "partition-id", "replica-id", "get-dimension-size",
    )
)  # fmt: skip
# Custom calls that the compiler resolves itself.
SILENT_TARGETS = frozenset({"AllocateBuffer", "Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape"})

_HEADER = re.compile(r"^(ENTRY\s+)?%?([\w.\-]+)\s.*\{\s*$")
# `%name = type opcode(`. In a type no letter of the lower case stands before a bracket, as in `f32[4]{0:T(8)}`.
_OPERATION = re.compile(r"^\s+(?:ROOT\s+)?%?[\w.\-]+ = .*?\s([a-z][\w\-]*)\(")
_ATTRIBUTE = re.compile(r"\b(body|condition|to_apply|calls|true_computation|false_computation)=%?([\w.\-]+)")
_BRANCHES = re.compile(r"\bbranch_computations=\{([^}]*)\}")
_COMPUTATION = re.compile(r"[\w.\-]+")
_TRIP_COUNT = re.compile(r'"known_trip_count":\s*\{"n":\s*"?(\d+)')
_TARGET = re.compile(r'custom_call_target="([^"]*)"')


class UnreadableProgram(ValueError):
    """A program text without the structure that counting relies on."""


@dataclass(frozen=True)
class Operation:
    """One line of a computation."""

    opcode: str
    computations: dict[str, str]  # role -> the computation that plays it
    branches: list[str]
    trip_count: int | None
    target: str


@dataclass
class Program:
    """The computations of a module, by name."""

    computations: dict[str, list[Operation]] = field(default_factory=dict)
    entry: str = ""


def parse(text: str) -> Program:
    """Reads the text of an HLO module, as `compiled.as_text()` gives it."""
    program = Program()
    current: list[Operation] | None = None
    for line in text.splitlines():
        if line.startswith("}"):
            current = None
        elif current is not None:
            current += _operations(line)
        elif (header := _HEADER.match(line)) and not line.startswith("HloModule"):
            current = program.computations.setdefault(header.group(2), [])
            if header.group(1):
                program.entry = header.group(2)
    if not program.entry:
        raise UnreadableProgram("expected the text of an HLO module with an ENTRY computation, found none")
    return program


def _operations(line: str) -> list[Operation]:
    """Returns the operation of a line, if it has one."""
    operation = _OPERATION.match(line)
    if not operation:
        return []
    branches, trip_count, target = (
        found.group(1) if (found := pattern.search(line)) else "" for pattern in (_BRANCHES, _TRIP_COUNT, _TARGET)
    )
    roles, turns = dict(_ATTRIBUTE.findall(line)), int(trip_count) if trip_count else None
    return [Operation(operation.group(1), roles, _COMPUTATION.findall(branches), turns, target)]


def launched(program: Program, computation: str) -> Counter[str]:
    """Counts what one run of a computation launches, by kind of operation. Loops inside count as often as they turn."""
    total: Counter[str] = Counter()
    for operation in program.computations.get(computation, ()):
        total += _launched_by(program, operation)
    return total


def _launched_by(program: Program, operation: Operation) -> Counter[str]:
    opcode, used = operation.opcode, operation.computations
    if opcode in BOOKKEEPING or opcode.endswith(("-done", "-update")) or operation.target in SILENT_TARGETS:
        return Counter()
    if opcode == "while":
        turns = operation.trip_count or 1
        return Counter({kind: turns * number for kind, number in _turn(program, operation).items()})
    if opcode == "conditional":
        branches = operation.branches or used.values()
        return max((launched(program, branch) for branch in branches), key=lambda found: found.total())
    if opcode == "call":  # among them the command buffers
        return launched(program, used["to_apply"])
    if opcode.endswith("-start") and "calls" in used:
        return launched(program, used["calls"])
    return Counter({opcode.removesuffix("-start"): 1})


def _turn(program: Program, loop: Operation) -> Counter[str]:
    """Counts what one turn of a loop launches: also the test for the end if the number of turns is not known."""
    body = launched(program, loop.computations["body"])
    return body if loop.trip_count is not None else body + launched(program, loop.computations["condition"])


def _outer_loops(program: Program, computation: str) -> Iterator[Operation]:
    """Yields the loops that are not inside other loops, in the order in which they run."""
    for operation in program.computations.get(computation, ()):
        if operation.opcode == "while":
            yield operation
        elif operation.opcode == "call":
            yield from _outer_loops(program, operation.computations["to_apply"])


def count(text: str) -> dict[str, dict[str, int]]:
    """Counts the launches of a training step by kind: `forward` and `backward` per processor step, `outside` once.

    The two loops over time are the two that launch most, the first of them forward. Small loops beside them, such as
    Sinkhorn's iteration, belong to where they stand.
    """
    program = parse(text)
    loops = list(_outer_loops(program, program.entry))
    if len(loops) < 2:
        raise UnreadableProgram(f"expected a loop forward and a loop backward, found {len(loops)} loops")
    turns = [_turn(program, loop) for loop in loops]
    first, second = sorted(sorted(range(len(loops)), key=lambda i: turns[i].total())[-2:])
    inside = _launched_by(program, loops[first]) + _launched_by(program, loops[second])
    outside = launched(program, program.entry) - inside
    found = {"forward": turns[first], "backward": turns[second], "outside": outside}
    return {where: dict(sorted(kinds.items())) for where, kinds in found.items()}
