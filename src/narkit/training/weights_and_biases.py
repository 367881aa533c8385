"""Curves for Weights & Biases, with the extra `wandb`."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Any

from narkit.files import write_with_folder
from narkit.training.callbacks import Callback
from narkit.training.progress import Point
from narkit.training.record import RunRecord
from narkit.training.trainer import Trainer

ID = "id.txt"


class WeightsAndBiases(Callback):
    """Logs the curves of every seed, and at the end the test scores, as one run of a project.

    Its files lie in `folder`, with the id of the run, so that a run that is resumed goes on there, too. Variables of
    the package apply, such as `WANDB_MODE=offline`, which sends nothing.
    """

    def __init__(self, folder: str | Path, project: str = "narkit"):
        try:
            import wandb  # type: ignore[import-not-found]
        except ImportError:
            raise ValueError("--wandb: expected the package wandb; pip install 'narkit[wandb]'") from None
        self._wandb, self._folder, self._project = wandb, Path(folder), project
        self._run: Any = None

    def on_start(self, trainer: Trainer) -> None:
        self._run = self._wandb.init(
            dir=str(self._folder),
            project=self._project,
            name="-".join([*trainer.config.algorithms, trainer.config.processor]),
            id=self._id(),
            resume="allow",
            config=trainer.config.to_json(),
            settings=self._wandb.Settings(console="off"),  # what is printed here stays here
        )

    def on_point(self, trainer: Trainer, point: Point) -> None:
        # Steps that a killed run had logged before and that are trained again are ignored there; they are the same.
        self._run.log(point.per_seed(trainer.config.seeds), step=point.step)

    def on_end(self, record: RunRecord) -> None:
        if self._run is None:  # all was trained before, and nothing was logged now
            return
        for algorithm, rules in record.test.items():
            for rule in rules:
                for seed, score in zip(record.config.seeds, record.test_scores(algorithm, rule), strict=True):
                    self._run.summary[f"test/{algorithm}/{rule}/seed_{seed}"] = float(score)

    def on_close(self) -> None:
        if self._run is not None:
            self._run.finish()
            self._run = None

    def _id(self) -> str:
        file = self._folder / ID
        if not file.exists():
            write_with_folder(file, secrets.token_hex(8))
        return file.read_text().strip()
