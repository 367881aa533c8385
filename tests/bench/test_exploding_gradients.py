"""The script that disturbs weights and measures gradients runs, here on a small network."""

import runpy
from pathlib import Path

import jax
import pytest

import narkit

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "exploding_gradients.py"


def test_norms_without_noise_are_those_of_the_network(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main, weights = runpy.run_path(str(SCRIPT))["main"], tmp_path / "bfs.safetensors"
    narkit.save(narkit.Reasoner("bfs", "mpnn", 8, key=jax.random.key(0)), weights)
    norms = main([str(weights), "--size", "4", "--samples", "2", "--noise", "0,0.5", "--tries", "2"])
    still, still_again = norms[0.0]
    assert still == still_again > 0
    assert len({still, *norms[0.5]}) == 3
    as_it_is, without_noise, with_noise = capsys.readouterr().out.splitlines()
    assert as_it_is.startswith("bfs, ") and as_it_is.endswith(f" as it is: {still:.1e}")
    assert without_noise == f"noise 0: median {still:.1e}, largest of 2 {still:.1e}"
    assert with_noise.endswith(f"largest of 2 {max(norms[0.5]):.1e}")
