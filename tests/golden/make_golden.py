"""Writes trajectories.npz: instances of all thirty algorithms and dm-clrs's trajectories on them.

Run it with a Python that has dm-clrs; it takes about a minute:

    python tests/golden/make_golden.py

Small instances keep every probe in full; of large ones only the shape and the SHA-256 of the float32 values are kept.
The file holds one flat array per type and, in `index`, JSON that says where each array lies. It carries dm-clrs's
version and this script's digest.
"""

import copy
import hashlib
import inspect
import json
import logging
import os
from importlib import metadata
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import clrs  # pyright: ignore[reportMissingImports]
import numpy as np
from clrs._src import algorithms, probing, samplers  # pyright: ignore[reportMissingImports]

TARGET = Path(__file__).with_name("trajectories.npz")
SIZES_IN_FULL = (4, 5, 8, 11, 16)
SIZES_AS_DIGESTS = (24, 32, 64)
STRING_MATCHERS = ("naive_string_matcher", "kmp_matcher")
# The order in which these take equal keys is up to NumPy's unstable argsort, which differs between processors; on few
# distinct coordinates the geometric ones have no answer.
NO_TIES = (
    "activity_selector",
    "dijkstra",
    "graham_scan",
    "jarvis_march",
    "mst_kruskal",
    "mst_prim",
    "segments_intersect",
    "task_scheduling",
)


class Store:
    """Arrays of any shape in one flat array per type, each in the smallest type that keeps every value."""

    def __init__(self):
        self.parts = {"int8": [], "int16": [], "float32": [], "float64": []}
        self.used = dict.fromkeys(self.parts, 0)

    def add(self, values, types):
        values = np.asarray(values)
        kind = next(kind for kind in types if np.array_equal(values.astype(kind), values))
        offset = self.used[kind]
        self.parts[kind].append(values.astype(kind).ravel())
        self.used[kind] += values.size
        return [kind, offset, list(values.shape)]

    def arrays(self):
        return {kind: np.concatenate(parts) for kind, parts in self.parts.items() if parts}


def variants(name, size):
    """Sampler settings and whether to round the numbers, so that some are equal."""
    sampler = samplers.SAMPLERS[name]
    parameters = inspect.signature(sampler._sample_data).parameters
    length = size * 5 // 4 if name in STRING_MATCHERS else size
    if "p" in parameters:
        settings = [{"p": (p,)} for p in (0.5, 0.15, 0.9)]
    elif "length_needle" in parameters:
        settings = [{}, {"length_needle": -max(1, min(8, (length - 1) // 2))}, {}]
    else:
        settings = [{}, {}, {}]
    rounded = [False, False, sampler.CAN_TRUNCATE_INPUT_DATA and name not in NO_TIES]
    return [({"length": length, **setting}, tied) for setting, tied in zip(settings, rounded, strict=True)]


def instances(name, size):
    sampler, _ = clrs.build_sampler(name, num_samples=-1, seed=size, track_max_steps=False, length=size)
    for setting, tied in variants(name, size):
        sampler._truncate_decimals = 1 if tied else None
        yield sampler._trunc_array(sampler._sample_data(**setting))


def trajectory(name, data, store, in_full):
    """Where the arguments and the probes lie in the store, by name."""
    function = getattr(algorithms, name)
    parameters = inspect.signature(function).parameters.values()
    names = [parameter.name for parameter in parameters if parameter.default is parameter.empty]
    arguments = {key: store.add(value, ("int8", "int16", "float64")) for key, value in zip(names, data, strict=True)}
    _, probes = function(*copy.deepcopy(data))
    probes_by_name = {}
    for stage in probing.split_stages(probes, clrs.SPECS[name]):
        for probe in stage:
            values = np.asarray(probe.data, np.float32) + np.float32(0.0)  # -0 becomes 0
            probes_by_name[probe.name] = (
                store.add(values, ("int8", "int16", "float32"))
                if in_full
                else ["sha256", hashlib.sha256(np.ascontiguousarray(values).tobytes()).hexdigest(), list(values.shape)]
            )
    return {"algorithm": name, "arguments": arguments, "probes": probes_by_name}


def main():
    logging.getLogger("absl").setLevel(logging.ERROR)
    store = Store()
    trajectories = []
    for name in clrs.CLRS_30_ALGS_SETTINGS:
        for size in (*SIZES_IN_FULL, *SIZES_AS_DIGESTS):
            for data in instances(name, size):
                entry = trajectory(name, data, store, in_full=size in SIZES_IN_FULL)
                trajectories.append({"size": size, **entry})
        print(name, flush=True)
    index = {
        "made by": {
            "dm-clrs": metadata.version("dm-clrs"),
            "script": hashlib.sha256(Path(__file__).read_bytes()).hexdigest(),
        },
        "trajectories": trajectories,
    }
    arrays: dict[str, Any] = {"index": np.frombuffer(json.dumps(index).encode(), np.uint8), **store.arrays()}
    np.savez_compressed(TARGET, **arrays)


if __name__ == "__main__":
    main()
