"""What a training step takes on a GPU that is not there: launches per processor step, and registers of its kernels.

    JAX_PLATFORMS=cpu JAX_SKIP_CUDA_CONSTRAINTS_CHECK=1 python benchmarks/without_gpu.py --launches h200.txtpb
    JAX_PLATFORMS=cpu python benchmarks/without_gpu.py --registers ptxas

The first compiles the step for a GPU by its description, with JAX's CUDA packages installed (extra `cuda`), and counts
what the program launches. Descriptions are among XLA's sources, in xla/backends/gpu/target_config/specs.

The second compiles every kernel of the step with NVRTC, which needs no GPU, and assembles it with `ptxas`, a program of
NVIDIA's compiler. Run it before and after a change of kernels: other numbers, or more spilled bytes, are what an
emulation on a CPU cannot show. The digest is that of the machine code: where it is the same, nothing has changed.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import jax
from jax import Array
from jax.experimental import topologies
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import narkit
from narkit.bench import launches
from narkit.compiler import OPTIONS
from narkit.fused import availability, launch, nvrtc
from narkit.models import objective
from narkit.models.interfaces import EdgePointers
from narkit.models.network import DeviceBatch, Reasoner

HOPPER = 90  # compute capability times ten
FOUND = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores.*Used (\d+) registers", re.S)

Step = Callable[[Reasoner, DeviceBatch], tuple[Array, Reasoner]]


def training_step(given: argparse.Namespace) -> tuple[Step, Reasoner, DeviceBatch]:
    """The loss and gradient of the network that was asked for, and what it takes."""
    batch = DeviceBatch.of(narkit.sample(given.algorithm, size=given.size, batch_size=32, seed=0))
    reasoner = narkit.Reasoner(
        given.algorithm, given.processor, edge_pointers=given.edge_pointers, key=jax.random.key(0)
    )
    with availability.use(given.mode):
        bind = narkit.fused.accelerate(reasoner).form
    return jax.value_and_grad(lambda reasoner, batch: objective.loss(reasoner, batch, bind=bind)), reasoner, batch


def compiled(description: str, step: Step, reasoner: Reasoner, batch: DeviceBatch) -> str:
    """The program of a training step for the GPU that is described."""
    gpus = topologies.get_topology_desc("gpu", "cuda", target_config=description, topology="1x1x1").devices
    where = NamedSharding(Mesh(gpus, ("x",)), PartitionSpec())
    arguments = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=where), (reasoner, batch))
    launch.compute_capability = lambda: HOPPER  # there is no GPU to ask
    text = jax.jit(step).lower(*arguments).compile(compiler_options=OPTIONS["gpu"]).as_text()
    assert text is not None  # as compilers for other devices may give
    return text


def assembled(ptxas: str, code: str) -> tuple[int, int, int, str]:
    """A kernel's registers per thread, bytes of its stack, spilled bytes and the digest of its machine code."""
    with tempfile.TemporaryDirectory() as folder:
        ptx, binary = Path(folder, "kernel.ptx"), Path(folder, "kernel.cubin")
        ptx.write_text(nvrtc.compile_to_ptx(code, HOPPER))
        command = [ptxas, "-v", f"-arch=sm_{HOPPER}", str(ptx), "-o", str(binary)]
        printed = subprocess.run(command, check=True, capture_output=True, text=True).stderr
        found = FOUND.search(printed)
        if found is None:
            raise SystemExit(f"expected ptxas to print registers and spilled bytes, got {printed!r}")
        stack, spilled, registers = map(int, found.groups())
        return registers, stack, spilled, hashlib.sha256(binary.read_bytes()).hexdigest()[:12]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--launches", type=Path, help="count launches on the GPU that this file describes")
    parser.add_argument("--registers", metavar="PTXAS", help="print the registers of kernels by this program")
    parser.add_argument("--algorithm", default="bfs")
    parser.add_argument("--processor", default="team")
    choices = [how.value for how in EdgePointers]
    parser.add_argument("--edge-pointers", choices=choices, default=EdgePointers.MEANS.value)
    parser.add_argument("--size", type=int, default=16)
    parser.add_argument("--mode", choices=[mode.value for mode in availability.Mode], default="fused")
    given = parser.parse_args(arguments)
    if given.launches is None and given.registers is None:
        parser.error("expected --launches FILE, or --registers PTXAS")
    step, reasoner, batch = training_step(given)
    if given.launches is not None:
        found = launches.count(compiled(given.launches.read_text(), step, reasoner, batch))
        network = f"{given.processor} on {given.algorithm}, {given.size} nodes, {given.mode}"
        print(f"launches per processor step of {network}:")
        print("forward ", found["forward"])
        print("backward", found["backward"])
    if given.registers is not None:
        eqns = launch.launches_in(jax.make_jaxpr(step)(reasoner, batch).jaxpr)
        kernels = {eqn.params["kernel"].code(eqn.params["rows"]): eqn.params["kernel"].name for eqn in eqns}
        print(f"{'kernel':26}{'registers':>10}{'stack':>7}{'spilled':>9}  digest")
        for code, name in kernels.items():
            registers, stack, spilled, digest = assembled(given.registers, code)
            print(f"{name:26}{registers:10}{stack:7}{spilled:9}  {digest}")


if __name__ == "__main__":
    main()
