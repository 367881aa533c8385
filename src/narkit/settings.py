"""Settings by the types of their fields: one reading for the command line, for files and for Python.

A dataclass says in its annotations what its fields are; `parse` reads one field from text, `read_fields` checks what
a program or a JSON file gave for all of them. Nothing is guessed: "False" is not a true value, 1.5 no whole number, and
a number that is not finite no number at all. What does not fit raises `SettingError`, which names the field, what was
expected with an example, and what came.
"""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import functools
import json
import math
import numbers
import re
import types
import typing
from collections.abc import Iterable, Mapping, Sequence, Sized
from typing import Any, TypeVar

from narkit.errors import UnknownNameError

FLAGS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
SIMPLE = {bool: "true or false", int: "whole numbers", float: "numbers", str: "words"}  # kinds, and several of them
UNIONS = (types.UnionType, typing.Union)
LARGEST = 2**63  # whole numbers beyond it fit into no array
MOST = 100_000  # values in a list

_Choice = TypeVar("_Choice", bound=enum.StrEnum)


class SettingError(ValueError):
    """A setting that is not of its field's type or range."""

    def __init__(self, name: str, expected: str, got: object, example: object = None):
        such_as = "" if example in (None, "", (), {}) else f", such as {as_typed(example)}"
        super().__init__(f"{name}: expected {expected}{such_as}, got {shown(got)}")


def shown(value: object) -> str:
    """Returns a value as messages show it: short, on one line."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:70]}… ({len(text)} characters)"


def as_typed(value: object) -> str:
    """Returns a value as one would type it behind `name=`."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple | list) and not any(dataclasses.is_dataclass(item) for item in value):
        return ",".join(map(str, value))
    if isinstance(value, tuple | list):
        return json.dumps([dataclasses.asdict(item) for item in value[:1]])  # type: ignore[call-overload]
    return json.dumps(value) if isinstance(value, Mapping) else str(value)


def whole_number(name: str, value: object, at_least: int | None = None, example: object = None) -> int:
    """Returns the value, if it is a whole number and no smaller than `at_least`."""
    expected = "a whole number" if at_least is None else f"a whole number of at least {at_least}"
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise SettingError(name, expected, value, example)
    if abs(int(value)) >= LARGEST:
        raise SettingError(name, f"{expected} and below 2^63", value, example)
    if at_least is not None and value < at_least:
        raise SettingError(name, f"at least {at_least}", int(value))
    return int(value)


def number(name: str, value: object, example: object = None, at_least: float | None = None) -> float:
    """Returns the value, if it is a finite number and no smaller than `at_least`."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not math.isfinite(value):
        raise SettingError(name, "a finite number", value, example)
    if at_least is not None and value < at_least:
        raise SettingError(name, f"at least {at_least}", value)
    return float(value)


def flag(name: str, value: object) -> bool:
    """Returns the value, if it is true or false; NumPy has its own."""
    if not isinstance(value, bool) and type(value).__name__ != "bool":
        raise SettingError(name, "true or false", value)
    return bool(value)


def word(name: str, value: object, example: object = None) -> str:
    """Returns the value, if it is a string that is not empty."""
    if not isinstance(value, str) or not value:
        raise SettingError(name, "a word", value, example)
    return str(value)


def choice(what: str, value: object, choices: type[_Choice]) -> _Choice:
    """Returns the choice that a word, or the choice itself, stands for; another word proposes the nearest."""
    try:
        return choices(value)
    except ValueError:
        raise UnknownNameError(what, value, [each.value for each in choices]) from None


def read(kind: Any, name: str, value: object, example: object = None) -> Any:
    """Reads a value from Python or JSON, checked against the annotation `kind` of the field `name`."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in UNIONS:
        return None if value is None else read(_without_none(inner), name, value, example)
    if origin is tuple:
        return _read_several(inner[0], name, value, example)
    if origin is not None and issubclass(origin, Mapping):
        if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
            raise SettingError(name, "a mapping of names to values", value, example)
        return dict(value)
    if dataclasses.is_dataclass(kind):
        return _read_record(kind, name, value)
    if kind is bool:
        return flag(name, value)
    if kind is int:
        return whole_number(name, value, example=example)
    if kind is float:
        return number(name, value, example)
    return word(name, value, example) if kind is str else value


def _read_several(kind: Any, name: str, value: object, example: object) -> tuple[Any, ...]:
    if isinstance(value, str | Mapping) or not isinstance(value, Iterable):
        raise SettingError(name, f"{_plural(kind)} in a list", value, example)
    if _is_too_long(value):
        raise SettingError(name, f"at most {MOST:,} {_plural(kind)}", value)
    first = example[0] if isinstance(example, Sequence) and example else None
    return tuple(read(kind, f"{name}[{place}]", item, first) for place, item in enumerate(value))


def _is_too_long(values: Iterable) -> bool:
    try:
        return isinstance(values, Sized) and len(values) > MOST
    except OverflowError:  # a range that has no end in sight
        return True


def _read_record(kind: Any, name: str, value: object) -> Any:
    if isinstance(value, kind):
        return value
    known = {field.name: field for field in dataclasses.fields(kind)}
    needed = [field.name for field in known.values() if field.default is dataclasses.MISSING]
    if not isinstance(value, Mapping):
        raise SettingError(name, f"a mapping with {' and '.join(needed)}", value)
    for given in value:
        if given not in known:
            raise UnknownNameError(f"field of {name}", given, known)
    if missing := [each for each in needed if each not in value]:
        raise SettingError(name, f"a mapping with {' and '.join(missing)}", dict(value))
    return kind(**{field: read(_kinds(kind)[field], f"{name}.{field}", item) for field, item in value.items()})


def read_fields(kind: type, given: Mapping[str, Any]) -> dict[str, Any]:
    """Reads options of a dataclass, each by its field. An unknown one raises and names the nearest."""
    defaults = _defaults(kind)
    for name in given:
        check_name(kind, name)
    return {name: read(_kinds(kind)[name], name, value, defaults.get(name)) for name, value in given.items()}


def check_name(kind: type, name: str) -> None:
    """Raises if the dataclass has no such field."""
    known = [field.name for field in dataclasses.fields(kind)]
    if name not in known:
        raise UnknownNameError("setting", name, known)


def parse(kind: type, name: str, text: str) -> Any:
    """Reads the field `name` of a dataclass from text, as it stands behind `--set name=`."""
    check_name(kind, name)
    return _parse(_kinds(kind)[name], name, text.strip(), _defaults(kind).get(name))


def _parse(kind: Any, name: str, text: str, example: object) -> Any:
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in UNIONS:
        return None if text.lower() in ("none", "null") else _parse(_without_none(inner), name, text, example)
    if origin is tuple and inner[0] in SIMPLE and not text.startswith("["):
        parts = text.split(",") if text else []
        return tuple(_parse(inner[0], name, part.strip(), example) for part in parts)
    if kind in SIMPLE:
        return read(kind, name, _from_word(kind, text), example)
    try:
        return read(kind, name, json.loads(text), example)
    except (json.JSONDecodeError, RecursionError):
        expected = f"a list of {_plural(inner[0])}" if origin is tuple else "a mapping of names to values"
        raise SettingError(name, f"{expected} as JSON", text, example) from None


def _from_word(kind: type, text: str) -> Any:
    """Returns what a word stands for; the word itself if it is not of its kind, so that `read` refuses it."""
    if kind is bool:
        return FLAGS.get(text.lower(), text)
    if kind is int:
        return int(text) if re.fullmatch(r"[+-]?\d+(_\d+)*", text, re.ASCII) and len(text) <= 30 else text
    if kind is float:
        with contextlib.suppress(ValueError):
            return float(text) if math.isfinite(float(text)) else text
    return text.strip("\"'") if kind is str else text


def _plural(kind: Any) -> str:
    return SIMPLE.get(kind, "mappings" if dataclasses.is_dataclass(kind) else "values")


def _without_none(kinds: tuple[Any, ...]) -> Any:
    return next(kind for kind in kinds if kind is not type(None))


@functools.cache
def _kinds(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _defaults(kind: Any) -> dict[str, Any]:
    """Returns the default of every field that has one: what errors give as the example."""
    return {field.name: field.default for field in dataclasses.fields(kind) if field.default is not dataclasses.MISSING}
