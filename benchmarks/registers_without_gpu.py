"""How many registers the kernels of a training step take on a GPU that is not there, and which of them spill.

    JAX_PLATFORMS=cpu python benchmarks/registers_without_gpu.py ptxas --algorithm bfs --processor team

Compiles every kernel of the traced step with NVRTC, which needs no GPU, and assembles it with `ptxas`, a program of
NVIDIA's compiler. Run it before and after a change of kernels: other numbers, or more spilled bytes, are what an
emulation on a CPU cannot show. The digest is that of the machine code: where it is the same, nothing has changed.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import jax

import narkit
from narkit.fused import availability, launch, nvrtc
from narkit.models import objective
from narkit.models.interfaces import EdgePointers
from narkit.models.network import DeviceBatch

HOPPER = 90  # compute capability times ten
FOUND = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores.*Used (\d+) registers", re.S)


def kernels(algorithm: str, processor: str, edge_pointers: str, size: int) -> dict[str, launch.Kernel]:
    """Returns the kernels of a training step's loss and gradient by their source texts."""
    batch = DeviceBatch.of(narkit.sample(algorithm, size=size, batch_size=32, seed=0))
    reasoner = narkit.Reasoner(algorithm, processor, edge_pointers=edge_pointers, key=jax.random.key(0))
    with availability.use("fused"):
        bind = narkit.fused.accelerate(reasoner).form
    step = jax.value_and_grad(lambda reasoner, batch: objective.loss(reasoner, batch, bind=bind))
    launches = launch.launches_in(jax.make_jaxpr(step)(reasoner, batch).jaxpr)
    return {eqn.params["kernel"].code(eqn.params["rows"]): eqn.params["kernel"] for eqn in launches}


def assembled(ptxas: str, code: str, capability: int) -> tuple[int, int, int, str]:
    """Returns a kernel's registers per thread, bytes of its stack, spilled bytes and the digest of its machine code."""
    with tempfile.TemporaryDirectory() as folder:
        ptx, binary = Path(folder, "kernel.ptx"), Path(folder, "kernel.cubin")
        ptx.write_text(nvrtc.compile_to_ptx(code, capability))
        command = [ptxas, "-v", f"-arch=sm_{capability}", str(ptx), "-o", str(binary)]
        printed = subprocess.run(command, check=True, capture_output=True, text=True).stderr
        found = FOUND.search(printed)
        if found is None:
            raise SystemExit(f"expected ptxas to print registers and spilled bytes, got {printed!r}")
        stack, spilled, registers = map(int, found.groups())
        return registers, stack, spilled, hashlib.sha256(binary.read_bytes()).hexdigest()[:12]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ptxas", help="the program")
    parser.add_argument("--algorithm", default="bfs")
    parser.add_argument("--processor", default="team")
    choices = [how.value for how in EdgePointers]
    parser.add_argument("--edge-pointers", choices=choices, default=EdgePointers.MEANS.value)
    parser.add_argument("--size", type=int, default=16)
    parser.add_argument("--compute-capability", type=int, default=HOPPER, help="times ten: 90 for Hopper")
    given = parser.parse_args(arguments)
    found = kernels(given.algorithm, given.processor, given.edge_pointers, given.size)
    print(f"{'kernel':26}{'registers':>10}{'stack':>7}{'spilled':>9}  digest")
    for code, kernel in found.items():
        registers, stack, spilled, digest = assembled(given.ptxas, code, given.compute_capability)
        print(f"{kernel.name:26}{registers:10}{stack:7}{spilled:9}  {digest}")


if __name__ == "__main__":
    main()
