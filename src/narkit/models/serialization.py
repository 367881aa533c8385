"""Reasoners as files: safetensors, with all that is needed to build the network again in the header."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import safetensors
import safetensors.flax

from narkit import __version__
from narkit.algorithms import ALGORITHMS
from narkit.errors import UnknownNameError
from narkit.files import check_place, write_whole
from narkit.models.interfaces import read_interfaces
from narkit.models.network import Reasoner
from narkit.models.processors import PROCESSORS
from narkit.settings import shown

FORMAT = 1
METADATA_KEY = "narkit"
DTYPES = ("float32", "bfloat16")


class ModelFileError(ValueError):
    """A file that holds no reasoner that can be built here."""


def save(reasoner: Reasoner, path: str | os.PathLike, dtype: str = "float32") -> None:
    """Writes a reasoner to a safetensors file; `narkit.load` reads it.

    The file is written whole or not at all. `dtype="bfloat16"` halves it, at the price of precision. A processor of
    your own must be registered, `narkit.PROCESSORS["mine"] = Mine`, so that the file can name it.
    """
    check_place(Path(path))
    if dtype not in DTYPES:
        raise UnknownNameError("type to store weights in", dtype, DTYPES)
    header = {
        "format": FORMAT,
        "narkit": __version__,
        "algorithms": list(reasoner.algorithms),
        "processor": reasoner.processor_name,
        "processor_options": _options_of(reasoner),
        "hidden_size": reasoner.hidden_size,
        "hints": reasoner.hints.value,
    }
    if changed := reasoner.interfaces.changed:  # files without them are as they always were
        header["interfaces"] = changed
    # Stacked seeds, or a network that was edited by hand, would make a file that cannot be loaded.
    tensors, wanted = _tensors(reasoner), _tensors(_skeleton(header))
    misfits = [name for name in wanted if name not in tensors or tensors[name].shape != wanted[name].shape]
    if misfits or set(tensors) != set(wanted):
        raise ValueError(
            f"expected a single reasoner as narkit.Reasoner makes it; these parameters differ from one: "
            f"{misfits or sorted(set(tensors) ^ set(wanted))}. Of several seeds, save one at a time"
        )
    stored = {name: jnp.asarray(values, dtype) for name, values in tensors.items()}
    write_whole(Path(path), safetensors.flax.save(stored, {METADATA_KEY: json.dumps(header)}))


def load(path: str | os.PathLike) -> Reasoner:
    """Reads a reasoner that `narkit.save` has written."""
    header, stored = _read(Path(path))
    _check_entries(path, header)
    names, processor = header["algorithms"], header["processor"]
    try:
        read_interfaces(header.get("interfaces", {}))
    except (ValueError, TypeError) as error:
        raise ModelFileError(f"{path}: {error}") from None
    for name in names:
        if name not in ALGORITHMS:
            raise ModelFileError(f"{path}: {UnknownNameError('algorithm', name, ALGORITHMS)}; import its module first")
    if processor not in PROCESSORS:
        raise ModelFileError(
            f"{path}: {UnknownNameError('processor', processor, PROCESSORS)}; "
            f"if it is your own, register it first: narkit.PROCESSORS[{processor!r}] = ..."
        )
    try:
        skeleton = _skeleton(header)
    except TypeError as error:
        raise ModelFileError(
            f"{path}: the processor {processor!r} does not take the options {header['processor_options']}: {error}"
        ) from None
    except ValueError as error:
        raise ModelFileError(f"{path}: no network is as its metadata say: {error}") from None

    wanted = _tensors(skeleton)
    if set(stored) != set(wanted):
        raise ModelFileError(
            f"{path}: the tensors do not fit {processor} for {', '.join(names)}: "
            f"missing {sorted(set(wanted) - set(stored))}, superfluous {sorted(set(stored) - set(wanted))}"
        )
    for name, values in stored.items():
        if values.shape != wanted[name].shape:
            raise ModelFileError(f"{path}: tensor {name}: expected shape {wanted[name].shape}, got {values.shape}")
        if str(values.dtype) not in DTYPES:
            raise ModelFileError(f"{path}: tensor {name}: expected {' or '.join(DTYPES)}, got {values.dtype}")
        if not np.isfinite(values).all():
            raise ModelFileError(
                f"{path}: tensor {name}: expected finite numbers, got NaN or infinity: its training diverged, or the "
                "file was changed"
            )
    # Converted by NumPy and moved at once: `jnp.asarray` would compile a program for every shape.
    leaves = jax.device_put([stored[name].astype(wanted[name].dtype) for name in wanted])
    return jax.tree.unflatten(jax.tree.structure(skeleton), leaves)


def _options_of(reasoner: Reasoner) -> dict[str, Any]:
    """Returns the options that make the processor again by its name; raises if a file cannot say both."""
    name = reasoner.processor_name
    if name not in PROCESSORS:
        raise ValueError(
            f"expected a processor that narkit.PROCESSORS has a name for, got {name}; register it before you make the "
            f"reasoner: narkit.PROCESSORS['mine'] = {type(reasoner.processor).__name__}"
        )
    if not reasoner.processor_options:
        raise ValueError(f"expected options of {name!r} that JSON can express (numbers, strings, lists), got others")
    return json.loads(reasoner.processor_options)


def _skeleton(header: Mapping[str, Any]) -> Reasoner:
    """Returns the reasoner that a header describes, with shapes in place of arrays: nothing is computed.

    It is kept, since tables are made of hundreds of files, and making it takes longer than reading one.
    """
    written = json.dumps([*(header[name] for name in ENTRIES), header.get("interfaces", {})])
    # Names may come to stand for others, and of which type numbers are is a setting of JAX.
    stands_for = (PROCESSORS[header["processor"]], *(ALGORITHMS[name] for name in header["algorithms"]))
    return _kept_skeleton(written, stands_for, jax.dtypes.canonicalize_dtype(float))


@functools.lru_cache(maxsize=512)
def _kept_skeleton(written: str, stands_for: tuple[Any, ...], numbers: np.dtype) -> Reasoner:
    algorithms, processor, options, hidden_size, hints, interfaces = json.loads(written)
    factory = functools.partial(PROCESSORS[processor], **options) if options else processor

    def make(key: Any) -> Reasoner:
        return Reasoner(tuple(algorithms), factory, hidden_size, hints, **interfaces, key=key)

    return eqx.filter_eval_shape(make, jax.eval_shape(jax.random.key, 0))


def _tensors(reasoner: Reasoner) -> dict[str, Any]:
    """Returns the parameters by their path in the network, in the order of its leaves."""
    leaves = jax.tree_util.tree_leaves_with_path(reasoner)
    return {jax.tree_util.keystr(path, simple=True, separator="."): leaf for path, leaf in leaves}


ENTRIES = {"algorithms": list, "processor": str, "processor_options": dict, "hidden_size": int, "hints": str}


def _check_entries(path: str | os.PathLike, header: dict[str, Any]) -> None:
    """Raises if the metadata do not describe the whole network, each entry of its type."""
    for name, kind in ENTRIES.items():
        if name not in header:
            raise ModelFileError(f"{path}: expected the entry {name!r} in the metadata, got {sorted(header)}")
        value = header[name]
        if not isinstance(value, kind) or (kind is list and not all(isinstance(word, str) for word in value)):
            raise ModelFileError(f"{path}: metadata: expected {name} as narkit.save writes it, got {shown(value)}")


def _read(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Reads the header and the tensors of a file."""
    if not path.is_file():
        raise FileNotFoundError(f"expected a file written by narkit.save, but there is none at {path}")
    try:
        with safetensors.safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            stored = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - it is not iterable
    except safetensors.SafetensorError as error:
        raise ModelFileError(
            f"{path}: expected a safetensors file written by narkit.save, got another: {error}"
        ) from None
    try:
        header = json.loads(metadata[METADATA_KEY])
    except (KeyError, ValueError):
        raise ModelFileError(
            f"{path}: expected metadata {METADATA_KEY!r} as narkit.save writes them, got the keys {sorted(metadata)}; "
            "for parameters of dm-clrs there is narkit.interop.clrs.from_haiku"
        ) from None
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        version = header.get("format") if isinstance(header, dict) else None
        raise ModelFileError(f"{path}: expected format {FORMAT}, got {version}; this is narkit {__version__}")
    return header, stored
