"""How large a graph TEAM trains on, and how long Triplet Edge Attention takes on middling ones.

    python benchmarks/large_graphs.py --sizes 256,512,1024 --out benchmarks/large_graphs.json

For each size it compiles the training step of one seed and one sample, says how much memory XLA plans for, takes
some steps and says how long the fastest took and the peak of the device's memory so far (sizes ascend, so it is the
size's own). A step that does not fit ends the row, not the script. Before that it times the forward pass of the
attention at batch 32 and 64 nodes: the layer on its own, `narkit.TripletEdgeAttention`, on dense features, and a step
of TEAM's processor (attention, messages, maximum, update), which on a GPU run as fused kernels. Both run in a loop on
the device, and what a program takes for one round is subtracted, so the host's part does not count.
"""

from __future__ import annotations

import argparse
import functools
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

import narkit
from narkit import machine
from narkit.compiler import compiler_options
from narkit.data.transforms import transform
from narkit.files import write_with_folder
from narkit.fused import report_parts
from narkit.models.features import Scalars
from narkit.training.packing import pack
from narkit.training.presets import preset
from narkit.training.programs import Programs

FURTHER_ROUNDS = 20


def fastest(run: Callable[[], Any], repeats: int) -> float:
    """Seconds of the fastest run, the first one (which may compile) left out."""
    times = []
    for _ in range(repeats + 1):
        start = time.perf_counter()
        jax.block_until_ready(run())
        times.append(time.perf_counter() - start)
    return min(times[1:])


def per_round(run: Callable[[int], Callable[[], Any]], repeats: int) -> float:
    """Seconds of one further round, where `run(count)` is a program that takes `count` rounds on the device."""
    return (fastest(run(1 + FURTHER_ROUNDS), repeats) - fastest(run(1), repeats)) / FURTHER_ROUNDS


def measure_training(algorithm: str, processor: str, num_nodes: int, repeats: int) -> dict[str, Any]:
    """One training step: one seed, one sample."""
    config = preset("paper", algorithms=algorithm, processor=processor, seeds=(0,), batch_size=1)
    programs = Programs(config)
    state = programs.initial_state()
    blank = jax.eval_shape(lambda: state)
    sample = transform(narkit.sample(algorithm, size=num_nodes, batch_size=1, seed=0), random_positions=False)
    rows = next(iter(sample.hints.values())).shape[0]
    packed = pack(sample, num_seeds=1, num_rows=rows, step=0)
    batch = jax.device_put(packed)
    row: dict[str, Any] = {"nodes": sample.num_nodes, "processor_steps": int(packed.num_steps)}
    row["paths"] = report_parts(algorithm, processor, sample.num_nodes)
    start = time.perf_counter()
    try:
        program = programs.compile_step(blank, batch)
        row["compile_s"] = time.perf_counter() - start
        planned = program.memory_analysis()
        if planned is not None:
            row["planned_gb"] = (planned.temp_size_in_bytes + planned.argument_size_in_bytes) / 1e9

        def step() -> jax.Array:
            nonlocal state
            state, losses = programs.train_step(state, batch)
            return losses

        row["step_s"] = fastest(step, repeats)
        row["loss"] = float(step()[0])
    except jax.errors.JaxRuntimeError as error:
        row["failed"] = str(error).splitlines()[0]
    peak = machine.peak_memory()
    if peak is not None:
        row["peak_gb"] = peak / 1e9
    return row


def measure_attention(batch_size: int, num_nodes: int, repeats: int) -> dict[str, Any]:
    """The forward pass of the layer on its own, and of a step of TEAM's processor.

    The layer's edges and the processor's hidden states are what the round before made of them.
    """
    hidden_size = 128
    keys = iter(jax.random.split(jax.random.key(0), 9))

    def normal(*shape: int) -> jax.Array:
        return jax.random.normal(next(keys), (batch_size, *shape))

    layer = narkit.TripletEdgeAttention(hidden_size, key=next(keys))
    layer = narkit.fused.accelerate(layer).form or layer
    dense = (normal(num_nodes, hidden_size), normal(num_nodes, num_nodes, hidden_size), normal(hidden_size))

    def layer_rounds(count: int) -> Callable[[], Any]:
        def run(layer: Any, nodes: Any, edges: Any, graph: Any) -> Any:
            return jax.lax.fori_loop(0, count, lambda _, edges: jax.vmap(layer)(nodes, edges, graph), edges)

        program = jax.jit(run, compiler_options=compiler_options())
        return lambda: program(layer, *dense)

    reasoner = narkit.Reasoner("bfs", "team", hidden_size, key=next(keys))
    bases = reasoner.encoders["bfs"].bases(narkit.ALGORITHMS["bfs"].transformed_spec)
    sizes = (len(basis.directions) for basis in (bases.node, bases.edge, bases.graph))
    at = ((num_nodes,), (num_nodes, num_nodes), ())
    scalars = Scalars.of(*(normal(*axes, size) for axes, size in zip(at, sizes, strict=True)))
    hidden = normal(num_nodes, hidden_size)
    everyone = jnp.ones((batch_size, num_nodes, num_nodes), bool)

    def processor_rounds(count: int) -> Callable[[], Any]:
        def run(reasoner: Any, scalars: Any, adjacency: Any, hidden: Any) -> Any:
            bind = narkit.fused.accelerate(reasoner).form
            if bind is None:
                step = jax.vmap(reasoner.bind("bfs").processor.with_latents)
            else:
                step = functools.partial(bind(reasoner, "bfs").processor.step_attending, added=None)
            return jax.lax.fori_loop(0, count, lambda _, h: step(scalars, adjacency, h)[0], hidden)

        program = jax.jit(run, compiler_options=compiler_options())
        return lambda: program(reasoner, scalars, everyone, hidden)

    return {
        "batch": batch_size,
        "nodes": num_nodes,
        "further_rounds": FURTHER_ROUNDS,
        "layer_ms": 1e3 * per_round(layer_rounds, repeats),
        "processor_step_ms": 1e3 * per_round(processor_rounds, repeats),
        "paths": report_parts("bfs", "team", num_nodes),
    }


def report(measured: dict[str, Any], record: dict[str, Any], out: Path | None) -> None:
    """Prints what was just measured and writes the record so far: a larger graph may end the process."""
    print(json.dumps(measured), flush=True)
    if out is not None:
        write_with_folder(out, json.dumps(record, indent=2) + "\n")


def main(arguments: list[str] | None = None) -> dict[str, Any]:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sizes", default="256,512,1024", help="numbers of nodes, with commas between")
    parser.add_argument("--algorithm", default="bfs")
    parser.add_argument("--processor", default="team")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--attention", default="32x64", help="samples x nodes of the attention")
    parser.add_argument("--out", type=Path, help="a JSON file for the record")
    options = parser.parse_args(arguments)
    record: dict[str, Any] = {
        "device": jax.devices()[0].device_kind,
        "versions": machine.versions("narkit", "jax", "jaxlib"),
        "commit": machine.commit(),
        "algorithm": options.algorithm,
        "processor": options.processor,
        "training": [],
    }
    samples, nodes = map(int, options.attention.split("x"))
    record["attention"] = measure_attention(samples, nodes, max(10, options.repeats))
    report(record["attention"], record, options.out)
    for size in sorted(map(int, options.sizes.split(","))):
        row = measure_training(options.algorithm, options.processor, size, options.repeats)
        record["training"].append(row)
        report(row, record, options.out)
    return record


if __name__ == "__main__":
    main()
