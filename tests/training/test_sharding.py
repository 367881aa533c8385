"""A run on several devices: what is shared out among them, and that the numbers stay."""

import json
import os
import subprocess
import sys

import pytest

from narkit.training.config import TrainConfig
from narkit.training.sharding import DevicesError, Shards, shares


def config(seeds: int, batch_size: int) -> TrainConfig:
    return TrainConfig(("bfs",), "mpnn", seeds=tuple(range(seeds)), batch_size=batch_size)


@pytest.mark.parametrize(
    ("seeds", "batch_size", "devices", "expected"),
    [(8, 32, 8, (8, 1)), (8, 32, 4, (4, 1)), (4, 32, 8, (4, 2)), (5, 32, 8, (1, 8)), (5, 30, 10, (5, 2))],
)
def test_seeds_come_first(seeds: int, batch_size: int, devices: int, expected: tuple[int, int]) -> None:
    assert shares(config(seeds, batch_size), devices) == expected


def test_numbers_that_do_not_fit() -> None:
    with pytest.raises(DevicesError, match="a batch has 32 samples"):
        shares(config(5, 32), 3)
    with pytest.raises(DevicesError, match="at least 1, got 0"):
        shares(config(5, 32), 0)
    with pytest.raises(DevicesError, match="which this process has, got 4096"):
        Shards.over(config(1, 4096), 4096)
    assert Shards.over(config(5, 32), 1) is None


def test_fused_kernels_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    import jax

    from narkit.fused import availability

    monkeypatch.setattr(jax, "local_devices", lambda: jax.devices() * 2)
    with availability.use("fused"), pytest.raises(DevicesError, match="NARKIT_KERNELS=plain"):
        Shards.over(config(2, 4), 2)


# Trains four seeds on one device, on four (seeds only) and on eight (seeds and batches), three seeds on one and on four
# (batches only, since three seeds cannot be shared out), and resumes a run on another number.
SCRIPT = """
import json, sys
import jax, numpy as np
from narkit.training.callbacks import Callback
from narkit.training.config import TrainConfig, Validation
from narkit.training.trainer import Trainer
assert jax.device_count() == 8

def config(seeds):
    return TrainConfig(("bfs",), "team", seeds=tuple(range(seeds)), steps=3, hidden_size=8, batch_size=4, sizes=(4,),
                       validate_every=1, validations=(Validation("id", 4, 4),), test=False)

found = {}
for seeds, devices in ((4, 1), (4, 4), (4, 8), (3, 1), (3, 4)):
    gradients = []
    # After the first step Adam's mean of gradients is a tenth of the gradient. Its updates would make much of little:
    # where a gradient is nearly zero, they have the full length in one direction or the other.
    class Note(Callback):
        def on_point(self, trainer, point):
            gradients.append(np.asarray(trainer.state.optimizer[1][0].mu).tolist())

    trainer = Trainer(config(seeds), devices=devices, threads=1, callbacks=[Note()])
    trainer.prepare()
    trainer.run()
    found[f"{seeds} on {devices}"] = {
        "gradients": gradients[0],
        "losses": [point.train_loss for point in trainer.progress.curve],
        "validation": [point.losses["id"] for point in trainer.progress.curve],
        "devices": len(trainer.state.parameters.sharding.device_set),
    }
    if devices == 8:
        other = Trainer(config(seeds), devices=4, threads=1)
        other.restore(trainer.snapshot())
        assert len(other.state.parameters.sharding.device_set) == 4
        np.testing.assert_array_equal(other.state.parameters, trainer.state.parameters)
json.dump(found, sys.stdout)
"""


@pytest.mark.slow
def test_eight_devices_give_the_numbers_of_one() -> None:
    import numpy as np

    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=8"
    environment = {**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    done = subprocess.run([sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout)
    for seeds, several in ((4, (4, 8)), (3, (4,))):
        one = found[f"{seeds} on 1"]
        for devices in several:
            result = found[f"{seeds} on {devices}"]
            assert result["devices"] == devices
            np.testing.assert_allclose(result["gradients"], one["gradients"], rtol=1e-4, atol=1e-6)
            for name in ("losses", "validation"):
                np.testing.assert_allclose(result[name], one[name], rtol=1e-3, err_msg=name)
