"""The formulas that the kernels stand for, by the digests of their source, so that none is edited unnoticed.

Kernels are written beside formulas of `narkit.models` and compared with them by the tests. Whoever edits a formula
afterwards would train with the old one on a GPU. So `formulas.json` holds a digest of every definition that a kernel
stands for, of its syntax without comments and docstrings, and without `__init__`: kernels read fields, whatever made
them, and `recognition` looks at those. Where a digest differs, the plain formulas run. The script
`tests/fused/renew_formulas.py` compares again, with kernels that are compiled for the CPU, and renews the digests.

Which definitions these are is found from a few roots: all that they name, and all that those name, in `narkit.models`.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib
import inspect
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).parents[1]  # of the package `narkit`
DIGESTS = Path(__file__).with_name("formulas.json")
HOW_TO_RENEW = "`python tests/fused/renew_formulas.py` in a checkout compares them again"

PACKAGE = "narkit.models"
APART = {"narkit.models.processors"}
"""The registry of processors names all of them; each is a root of its own, if it has kernels."""

ROOTS = {
    "attention": ["narkit.models.triplet_edge_attention.TripletEdgeAttention"],
    "team": ["narkit.models.processors.team.TEAM"],
    "triplet_gmpnn": [
        f"narkit.models.processors.triplet_gmpnn.{name}"
        for name in ("TripletGMPNN", "TripletMPNN", "TripletPGN", "TripletGPGN")
    ],
    "message_passing": [
        "narkit.models.processors.mpnn.MPNN",
        "narkit.models.processors.mpnn.GatedMPNN",
        "narkit.models.processors.pgn.PGN",
        "narkit.models.processors.pgn.GatedPGN",
        "narkit.models.processors.deepsets.DeepSets",
    ],
    "network": ["narkit.models.network.Reasoner", "narkit.models.unrolling.Step"],
}

Definition = tuple[str, str]
"""A module and a name in it."""

_trusted = False


def trust() -> None:
    """Lets kernels run in this process whatever the digests are: for the script that compares and renews them."""
    global _trusted
    _trusted = True


def changed(part: str) -> list[str]:
    """Returns the formulas of a part that are not those which the kernels were compared with."""
    return [] if _trusted else _changed(part)


@functools.cache
def _changed(part: str) -> list[str]:
    known = json.loads(DIGESTS.read_text())
    found = digests(part)
    different = [name for name, digest in found.items() if known.get(name) != digest]
    return different or [f"{module}.{name}" for module, name in _closure(part) if _is_patched(module, name)]


def digests(part: str) -> dict[str, str]:
    """Returns the digests of all definitions of a part, by name."""
    found = {}
    for module, name in _closure(part):
        text = "".join(_canonical(statement) for statement in _read(module).statements[name])
        found[f"{module}.{name}"] = hashlib.sha256(text.encode()).hexdigest()[:16]
    return found


def write(found: dict[str, str]) -> None:
    """Writes the digests of formulas that were compared with the kernels."""
    DIGESTS.write_text(json.dumps(dict(sorted(found.items())), indent=1) + "\n")


@dataclass
class _Module:
    """The definitions of a module, and what the names that it imports are elsewhere."""

    statements: dict[str, list[ast.stmt]] = field(default_factory=dict)
    imports: dict[str, tuple[str, str | None]] = field(default_factory=dict)  # without a name: a module


def _closure(part: str) -> list[Definition]:
    """Returns all definitions that the roots of a part depend on, in a fixed order."""
    waiting: list[Definition] = [tuple(root.rsplit(".", 1)) for root in ROOTS[part]]  # type: ignore[misc]
    found: set[Definition] = set()
    while waiting:
        module, name = waiting.pop()
        if (module, name) in found or name not in _read(module).statements:
            continue
        found.add((module, name))
        waiting.extend(_named(module, name))
    return sorted(found)


def _named(module: str, name: str) -> Iterator[Definition]:
    """Finds the definitions of `narkit.models` that a definition names."""
    here = _read(module)
    for statement in here.statements[name]:
        for node in _walk(statement):
            if isinstance(node, ast.Name) and node.id in here.statements:
                yield module, node.id
            if isinstance(node, ast.Name) and node.id in here.imports:
                source, original = here.imports[node.id]
                if original is not None:
                    yield source, original
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                source, original = here.imports.get(node.value.id, ("", ""))
                if original is None:
                    yield source, node.attr


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    """Walks over the syntax of a formula, without what is left out of digests."""
    yield node
    for inner in ast.iter_child_nodes(node):
        if not _is_left_out(inner):
            yield from _walk(inner)


def _is_left_out(node: Any) -> bool:
    """Returns whether a statement is a docstring, or makes the fields of a class."""
    is_docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return is_docstring or (isinstance(node, ast.FunctionDef) and node.name == "__init__")


@functools.cache
def _read(module: str) -> _Module:
    read = _Module()
    for statement in ast.parse(_path(module).read_text()).body:
        match statement:
            case ast.FunctionDef() | ast.ClassDef():
                read.statements.setdefault(statement.name, []).append(statement)
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                read.statements.setdefault(name, []).append(statement)
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name)))):  # `name.defvjp(...)`
                read.statements.setdefault(name, []).append(statement)
            case ast.ImportFrom(module=str(source)) if source.startswith(PACKAGE) and source not in APART:
                for alias in statement.names:
                    inner = f"{source}.{alias.name}"
                    target = (inner, None) if _path(inner).is_file() else (source, alias.name)
                    read.imports[alias.asname or alias.name] = target
            case _:
                pass
    return read


def _path(module: str) -> Path:
    return SOURCE.joinpath(*module.split(".")[1:]).with_suffix(".py")


_LEFT_OUT = {"type_params", "type_comment", "kind", "ctx"}  # which differ between versions of Python, or say nothing


def _canonical(node: Any) -> str:
    """Returns the syntax of a statement as text, equal in all versions of Python, without docstrings and messages."""
    if isinstance(node, ast.JoinedStr):
        return "f"
    if isinstance(node, list):
        return "[" + ",".join(_canonical(part) for part in node if not _is_left_out(part)) + "]"
    if isinstance(node, ast.AST):
        fields = ((name, getattr(node, name, None)) for name in node._fields if name not in _LEFT_OUT)
        parts = [f"{name}={_canonical(value)}" for name, value in fields if value is not None and value != []]
        return f"{type(node).__name__}({','.join(parts)})"
    return repr(node)


def _is_patched(module: str, name: str) -> bool:
    """Returns whether a function, or a method of a class, has been replaced since its module was loaded."""
    value = getattr(importlib.import_module(module), name, None)
    for statement in _read(module).statements[name]:
        if isinstance(statement, ast.FunctionDef) and not _comes_from(value, module, name):
            return True
        if isinstance(statement, ast.ClassDef):
            methods = [part for part in statement.body if isinstance(part, ast.FunctionDef) and not _is_left_out(part)]
            if not all(_comes_from(vars(value).get(m.name), module, f"{name}.{m.name}") for m in methods):
                return True
    return False


def _comes_from(value: Any, module: str, qualified_name: str) -> bool:
    # Of class methods, properties of two kinds, Equinox's methods, and functions with a gradient of their own.
    for attribute in ("__func__", "fget", "func", "method", "fun"):
        value = getattr(value, attribute, value) or value
    value = inspect.unwrap(value)
    return getattr(value, "__module__", None) == module and getattr(value, "__qualname__", None) == qualified_name
