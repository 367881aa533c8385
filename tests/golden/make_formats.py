"""Makes small files in the formats that narkit writes today, to be read by every later version.

    python tests/golden/make_formats.py tests/golden/formats/VERSION

`0.1.0` was made before records had format 3: a run that was stopped after step 6 of 10 (`stopped/`, a checkpoint of
format 1) with the parameters that its rules chose in the end (`finished.npz`), and a sweep's record of format 2 with
its weights (`records/`). Never make it again.
"""

import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path

import numpy as np

import narkit
from narkit.training.trainer import Trainer

OPTIONS = {
    "processor": "mpnn",
    "hidden_size": 4,
    "seeds": (0, 1),
    "steps": 10,
    "batch_size": 4,
    "sizes": (4,),
    "validate_every": 4,
    "validations": [{"name": "id", "size": 4, "num_samples": 4}, {"name": "ood", "size": 6, "num_samples": 4}],
}


class Stop(narkit.Callback):
    """Ends the run after step 6, as a user would."""

    def on_step(self, trainer: Trainer) -> None:
        if trainer.progress.step == 6:
            os.kill(os.getpid(), signal.SIGTERM)


def make(folder: Path) -> None:
    from narkit.sweeps.cells import SweepDirectory, make_cells
    from narkit.sweeps.sweep import SweepOptions, run_sweep

    folder.mkdir(parents=True)
    config = narkit.TrainConfig.from_json({"algorithms": ("bfs",), "test": False, **OPTIONS})
    try:
        narkit.train(config, folder / "stopped", callbacks=[Stop()])
    except KeyboardInterrupt as stopped:
        print(stopped)
    (folder / "stopped" / "lock").unlink()
    np.savez_compressed(folder / "finished.npz", **narkit.train(config).choices())  # type: ignore[arg-type]
    with tempfile.TemporaryDirectory() as name:
        options = {name: value for name, value in OPTIONS.items() if name not in ("seeds", "processor")}
        cells = make_cells("quick", ("mpnn",), ("bfs",), 2, options)
        run_sweep(cells, SweepDirectory(Path(name)), options=SweepOptions(threads=1))
        (folder / "records").mkdir()
        shutil.copytree(Path(name) / "mpnn", folder / "records" / "mpnn")


if __name__ == "__main__":
    make(Path(sys.argv[1]))
