"""How large gradients through many processor steps get when the weights of a trained network are disturbed.

    JAX_PLATFORMS=cpu python benchmarks/exploding_gradients.py results/paper/team/jarvis_march.safetensors

Adds normal noise to all weights, as a multiple of their standard deviation, and prints the norm of the gradient of the
training loss on one batch: of the network as it is, then for every amount of noise the median and the largest of
several tries. On a CPU the plain formulas run in float32, so whatever they show is not the kernels' doing.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

import narkit
from narkit.models import objective
from narkit.models.network import DeviceBatch
from narkit.training.presets import preset


def gradient_norm(restore: Callable[[jax.Array], narkit.Reasoner], batch: DeviceBatch) -> Callable[[jax.Array], float]:
    """The norm of the gradient as a function of the weights; infinite where a number has overflowed."""
    unrolling = preset("paper", algorithms=batch.algorithm).unrolling

    def loss(weights: jax.Array) -> jax.Array:
        reasoner = restore(weights)
        bind = narkit.fused.accelerate(reasoner, unrolling).form
        return objective.loss(reasoner, batch, key=jax.random.key(0), options=unrolling, bind=bind)

    gradient = jax.jit(jax.grad(loss))

    def norm(weights: jax.Array) -> float:
        value = float(np.linalg.norm(np.asarray(gradient(weights), np.float64)))  # squares would overflow in float32
        return value if math.isfinite(value) else math.inf

    return norm


def main(arguments: list[str] | None = None) -> dict[float, list[float]]:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("weights", type=Path, help="a network of one algorithm, as a sweep keeps it")
    parser.add_argument("--size", type=int, default=16)
    parser.add_argument("--samples", type=int, default=4)
    parser.add_argument("--noise", default="0.4,0.5,0.6", help="in standard deviations, with commas between")
    parser.add_argument("--tries", type=int, default=25, help="for every amount of noise")
    options = parser.parse_args(arguments)
    reasoner = narkit.load(options.weights)
    if len(reasoner.algorithms) != 1:
        parser.error(f"expected a network of one algorithm, got one of {', '.join(reasoner.algorithms)}")
    (algorithm,) = reasoner.algorithms
    batch = DeviceBatch.of(narkit.sample(algorithm, size=options.size, batch_size=options.samples, seed=0))
    weights, restore = ravel_pytree(reasoner)
    norm = gradient_norm(restore, batch)
    print(f"{algorithm}, {batch.num_steps} processor steps, as it is: {norm(weights):.1e}", flush=True)
    rng, spread = np.random.default_rng(0), float(jnp.std(weights))
    norms: dict[float, list[float]] = {}
    for noise in map(float, options.noise.split(",")):
        disturbed = (weights + noise * spread * rng.normal(size=weights.shape) for _ in range(options.tries))
        norms[noise] = [norm(jnp.asarray(each, weights.dtype)) for each in disturbed]
        median, largest = np.median(norms[noise]), max(norms[noise])
        print(f"noise {noise:g}: median {median:.1e}, largest of {options.tries} {largest:.1e}", flush=True)
    return norms


if __name__ == "__main__":
    main()
