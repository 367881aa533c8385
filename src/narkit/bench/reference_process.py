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
    """A script that answers lines of JSON with lines of JSON; the first one it writes names its versions."""

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
            self.close()
            code = self._process.returncode
            raise OSError(
                f"the reference stopped with exit code {code}; run {self._python} -c 'import clrs' to see why"
            )
        try:
            answer = json.loads(line)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            self.close()
            raise OSError(
                f"{self._python}: expected an interpreter that answers in JSON, got {line.strip()[:60]!r}; "
                "give a Python that has dm-clrs"
            )
        return answer

    def close(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):  # a process that died cannot take what was left to say
            self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()
