"""How many launches a processor step takes on a GPU that is not there.

    JAX_PLATFORMS=cpu JAX_SKIP_CUDA_CONSTRAINTS_CHECK=1 python benchmarks/launches_without_gpu.py h200.txtpb

Compiles a training step for a GPU by its description, with JAX's CUDA packages installed (extra `cuda`), and counts
what the program launches. Descriptions are among XLA's sources, in xla/backends/gpu/target_config/specs.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import jax
from jax.experimental import topologies
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import narkit
from narkit.bench import launches
from narkit.compiler import OPTIONS
from narkit.fused import availability, launch
from narkit.models import objective
from narkit.models.interfaces import EdgePointers
from narkit.models.network import DeviceBatch


def compiled(description: str, algorithm: str, processor: str, edge_pointers: str, size: int, mode: str) -> str:
    """The program of a training step's loss and gradient for the GPU that is described."""
    gpus = topologies.get_topology_desc("gpu", "cuda", target_config=description, topology="1x1x1").devices
    where = NamedSharding(Mesh(gpus, ("x",)), PartitionSpec())
    batch = DeviceBatch.of(narkit.sample(algorithm, size=size, batch_size=32, seed=0))
    reasoner = narkit.Reasoner(algorithm, processor, edge_pointers=edge_pointers, key=jax.random.key(0))
    arguments = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=where), (reasoner, batch))
    launch.compute_capability = lambda: 90  # there is no GPU to ask
    with availability.use(mode):
        bind = narkit.fused.accelerate(reasoner).form
    step = jax.jit(jax.value_and_grad(lambda reasoner, batch: objective.loss(reasoner, batch, bind=bind)))
    return step.lower(*arguments).compile(compiler_options=OPTIONS["gpu"]).as_text()


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("description", type=Path, help="the file that describes the GPU")
    parser.add_argument("--algorithm", default="bfs")
    parser.add_argument("--processor", default="team")
    choices = [how.value for how in EdgePointers]
    parser.add_argument("--edge-pointers", choices=choices, default=EdgePointers.MEANS.value)
    parser.add_argument("--size", type=int, default=16)
    parser.add_argument("--mode", choices=[mode.value for mode in availability.Mode], default="fused")
    given = parser.parse_args(arguments)
    network = (given.algorithm, given.processor, given.edge_pointers)
    program = compiled(given.description.read_text(), *network, given.size, given.mode)
    found = launches.count(program)
    print(f"launches per processor step of {given.processor} on {given.algorithm}, {given.size} nodes, {given.mode}:")
    print("forward ", found["forward"])
    print("backward", found["backward"])


if __name__ == "__main__":
    main()
