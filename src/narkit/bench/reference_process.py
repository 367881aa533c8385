"""dm-clrs in another interpreter, asked one question at a time."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any


class ReferenceProcess:
    """A script that answers lines of JSON with lines of JSON; the first one it writes names its versions.

    Use it in a `with` statement, which ends it.
    """

    def __init__(self, python: Path, script: Path, environment: Mapping[str, str] | None = None):
        inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        try:
            self._process = subprocess.Popen(
                [str(python), str(script)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                env={**inherited, **(environment or {})},
            )
        except OSError as error:
            raise OSError(f"{python} could not be started: {error.strerror}; give a Python that has dm-clrs") from None
        self._python = python
        self.versions: dict[str, str] = self._answer()

    def ask(self, question: Mapping[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        print(json.dumps(question), file=self._process.stdin, flush=True)
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._process.communicate()
            raise OSError(
                f"the reference stopped with exit code {self._process.returncode}; run {self._python} -c 'import clrs' "
                "to see why"
            )
        with contextlib.suppress(ValueError):
            if isinstance(answer := json.loads(line), dict):
                return answer
        self._process.communicate()
        raise OSError(
            f"{self._python}: expected an interpreter that answers in JSON, got {line.strip()[:60]!r}; "
            "give a Python that has dm-clrs"
        )

    def __enter__(self) -> ReferenceProcess:
        return self

    def __exit__(self, *error: object) -> None:
        self._process.communicate()  # closes its input, which ends it, and waits
