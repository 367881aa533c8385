"""The software of a machine of a cluster, and whether it fits what the sweep was started with.

`describe` is sent to other machines as source code, since it has to run where narkit is missing or another version. So
it may use nothing but the standard library, and imports what it needs itself.
"""

from __future__ import annotations

from collections.abc import Mapping

COMPARED = {
    "python": "Python",
    "narkit": "narkit",
    "jax": "JAX",
    "jaxlib": "jaxlib",
    "equinox": "Equinox",
    "optax": "Optax",
}
SOURCE = "source"  # a digest of narkit's own files


def describe(storage: str | None = None, gpus: bool = True) -> dict[str, str]:
    """Describes the machine that this runs on: name, versions, and bytes of its smallest GPU's memory (0: no GPU seen).

    `storage_error` says why the storage of checkpoints cannot be written from here, if it cannot.
    """
    import contextlib
    import hashlib
    import importlib
    import importlib.metadata
    import os
    import pathlib
    import platform
    import subprocess
    import uuid

    packages = ("jax", "jaxlib", "equinox", "optax")
    found = dict.fromkeys((*packages, "narkit", "source"), "none")
    found |= {"machine": platform.node(), "python": ".".join(platform.python_version_tuple()[:2])}
    for package in packages:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[package] = importlib.metadata.version(package)
    with contextlib.suppress(ImportError):
        narkit = importlib.import_module("narkit")
        folder = pathlib.Path(str(narkit.__file__)).parent
        digest = hashlib.sha256()
        for path in sorted(path for path in folder.rglob("*") if path.suffix in (".py", ".cu", ".cuh")):
            digest.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes())
        found["narkit"], found["source"] = str(narkit.__version__), digest.hexdigest()[:12]
    found["gpu_memory"] = "0"
    if gpus:
        asked = ["nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits"]
        with contextlib.suppress(OSError, ValueError, subprocess.SubprocessError):
            sizes = subprocess.run(asked, capture_output=True, text=True, check=True, timeout=60).stdout.split()
            found["gpu_memory"] = str(min(int(size) for size in sizes) * 2**20)
    if storage is not None:
        try:
            filesystem, folder_name = importlib.import_module("fsspec.core").url_to_fs(storage)
            filesystem.makedirs(folder_name, exist_ok=True)
            name = f"{folder_name.rstrip('/')}/.narkit-{os.getpid()}-{uuid.uuid4().hex}"
            filesystem.pipe_file(name, b"narkit")
            filesystem.rm_file(name)
        except Exception as error:  # every kind of storage has errors of its own
            found["storage_error"] = f"{type(error).__name__}: {error}"
    return found


def difference(driver: Mapping[str, str], worker: Mapping[str, str]) -> str | None:
    """Says what differs between two machines such that cells may not run there; None if nothing does."""
    where = worker["machine"]
    parts = [
        f"{title} {driver[name]} here, {worker[name]} on {where}"
        for name, title in COMPARED.items()
        if driver[name] != worker[name]
    ]
    if not parts and driver[SOURCE] != worker[SOURCE]:
        version = f"narkit {driver['narkit']}"
        parts = [
            f"{version} with source files {driver[SOURCE]} here, {version} with others, {worker[SOURCE]}, on {where}"
        ]
    if not parts:
        return None
    return f"expected the same versions everywhere, got {'; '.join(parts)}. Install the same ones on every machine"
