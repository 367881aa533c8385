"""Gradients of an arm on the GPU, on the CPU and of a plainly unrolled loop: `python gradients.py ALGORITHMS ARM`."""

import sys

import jax
import jax.numpy as jnp
import network
import numpy as np
from arms import ARMS
from jax.flatten_util import ravel_pytree

import narkit
from narkit.models import objective
from narkit.models.network import DeviceBatch

LONGEST_UNROLLED = 30


def loss(net: network.Net, batch: DeviceBatch):
    outputs, hints = network.unroll(net, batch)
    parts = objective.output_losses(batch, outputs) | objective.hint_losses(batch, hints)
    return sum(parts.values(), jnp.zeros(()))


def unrolled_loop(step, params, data, carry, num_steps, capacity, last):
    """What `time_loop` computes, as a Python loop that JAX differentiates on its own."""
    ys, at_last = [], None
    for t in range(capacity):
        carry, y, z = step(params, data, t, carry)
        ys.append(y)
        here = last == t

        def pick(new, old, here=here):
            return jnp.where(here.reshape(-1, *(1,) * (new.ndim - 1)), new, old)

        at_last = z if at_last is None else jax.tree.map(pick, z, at_last)
    return carry, jax.tree.map(lambda *rows: jnp.stack(rows), *ys), at_last


def gradient_on(device, net, batch) -> np.ndarray:
    with jax.default_device(device):
        gradient = jax.jit(jax.grad(loss))(jax.device_put(net, device), jax.device_put(batch, device))
    return np.asarray(ravel_pytree(gradient)[0], np.float64)


def main() -> None:
    jax.config.update("jax_default_matmul_precision", "highest")
    sizes = [int(size) for size in sys.argv[3].split(",")] if len(sys.argv) > 3 else [4, 7, 11, 13, 16]
    width = int(sys.argv[4]) if len(sys.argv) > 4 else 128
    cpu, gpu = jax.devices("cpu")[0], jax.devices()[0]
    for algorithm in sys.argv[1].split(","):
        net = network.Net(algorithm, ARMS[sys.argv[2]], width, key=jax.random.key(0))
        for size in sizes:
            batch = DeviceBatch.of(narkit.sample(algorithm, size=size, batch_size=4, seed=0))
            reference = gradient_on(cpu, net, batch)
            others = {gpu.platform: gradient_on(gpu, net, batch)} if gpu.platform != "cpu" else {}
            if batch.num_steps <= LONGEST_UNROLLED and size == sizes[0]:
                loop, network.time_loop = network.time_loop, unrolled_loop
                others["unrolled"] = gradient_on(cpu, net, batch)
                network.time_loop = loop
            norm = np.linalg.norm(reference)
            for name, gradient in others.items():
                print(
                    algorithm, size, name, f"differs by {np.linalg.norm(gradient - reference) / norm:.1e}", flush=True
                )


if __name__ == "__main__":
    main()
