"""Writes split_hashes.json: a digest of every probe of every official split, computed by dm-clrs.

Run it with a Python that has dm-clrs; it takes about five minutes, keeps what it has after every split, and goes on
from there:

    python tests/golden/make_split_hashes.py

The digest of a probe is the SHA-256 of its float32 values, sample after sample, each hint cut to its sample's length;
so neither padding nor the layout of a batch plays a part. The file carries dm-clrs's version and this script's digest.
"""

import hashlib
import json
import logging
import os
import time
from importlib import metadata
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import clrs  # pyright: ignore[reportMissingImports]
import numpy as np

TARGET = Path(__file__).with_name("split_hashes.json")
SPLITS = {"val": (32, 16, 2), "test": (32, 64, 3), "train": (1000, 16, 1)}  # samples, size, seed
STRING_MATCHERS = ("naive_string_matcher", "kmp_matcher")  # their published size counts the haystack alone


def header():
    script = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()
    return {"dm-clrs": metadata.version("dm-clrs"), "script": script}


def digests(name, split):
    """One digest per probe, and one of the lengths (as int32)."""
    num_samples, length, seed = SPLITS[split]
    if split != "train":
        num_samples *= clrs.CLRS_30_ALGS_SETTINGS[name]["num_samples_multiplier"]
    if name in STRING_MATCHERS:
        length = length * 5 // 4
    # Samples made one at a time are the samples of the split, without all of their padding in memory at once.
    sampler, _ = clrs.build_sampler(name, num_samples=-1, seed=seed, track_max_steps=False, length=length)
    hashers = {}
    lengths = []
    for _ in range(num_samples):
        features, outputs = sampler.next(batch_size=1)
        lengths.append(int(features.lengths[0]))
        for probe in (*features.inputs, *features.hints, *outputs):
            values = np.asarray(probe.data, np.float32) + np.float32(0.0)  # -0 becomes 0
            hashers.setdefault(probe.name, hashlib.sha256()).update(np.ascontiguousarray(values).tobytes())
    result = {probe: hasher.hexdigest() for probe, hasher in hashers.items()}
    result["lengths"] = hashlib.sha256(np.array(lengths, np.int32).tobytes()).hexdigest()
    return {"samples": num_samples, "longest": max(lengths), "digests": result}


def main():
    logging.getLogger("absl").setLevel(logging.ERROR)
    golden = {"made by": header(), "splits": {}}
    if TARGET.exists():
        known = json.loads(TARGET.read_text())
        if known["made by"] == golden["made by"]:
            golden = known
    for split in SPLITS:
        for name in clrs.CLRS_30_ALGS_SETTINGS:
            key = f"{name}/{split}"
            if key in golden["splits"]:
                continue
            start = time.perf_counter()
            golden["splits"][key] = digests(name, split)
            TARGET.write_text(json.dumps(golden, indent=1) + "\n")
            print(f"{key}: {time.perf_counter() - start:.1f} s", flush=True)


if __name__ == "__main__":
    main()
