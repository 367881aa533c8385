"""A real Chromium, driven over the WebDriver protocol: just what the tests of pages need, without a package for it."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any, Self

KEYS = {"left": "\ue012", "right": "\ue014", "home": "\ue011", "end": "\ue010", "space": " ", "tab": "\ue004"}
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # how the protocol marks a reference to an element
START_SECONDS = 60
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # whatever proxy is set, this goes nowhere


def on_path(*names: str) -> str:
    found = next(filter(None, map(shutil.which, names)), None)
    assert found, f"expected {' or '.join(names)} on the path (Debian: chromium and chromium-driver)"
    return found


class Chromium:
    """One window without a screen. Everything that a page logs as an error makes `errors` grow."""

    def __init__(self, profile: Path):
        driver = on_path("chromedriver")
        self._process = subprocess.Popen(
            [driver, "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        assert self._process.stdout is not None
        line = next(line for line in self._process.stdout if "successfully on port" in line)
        self._root = f"http://127.0.0.1:{line.rsplit('port', 1)[1].strip().rstrip('.')}"
        arguments = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            f"--user-data-dir={profile}",
            "--hide-scrollbars",
        ]
        options = {"binary": on_path("chromium", "chromium-browser", "google-chrome"), "args": arguments}
        capabilities = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        answer = self._send("POST", "/session", {"capabilities": {"alwaysMatch": capabilities}})
        self._session = f"/session/{answer['sessionId']}"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._send("DELETE", self._session)
        finally:
            self._process.terminate()
            self._process.wait(10)
            assert self._process.stdout is not None
            self._process.stdout.close()

    def _send(self, method: str, path: str, body: dict | None = None) -> Any:
        data = None if method in ("GET", "DELETE") else json.dumps(body or {}).encode()
        request = urllib.request.Request(self._root + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with _DIRECT.open(request, timeout=START_SECONDS) as response:
                return json.load(response)["value"]
        except urllib.error.HTTPError as error:
            with error:
                raise AssertionError(json.load(error)["value"]["message"]) from None

    def _post(self, path: str, **body: Any) -> Any:
        return self._send("POST", self._session + path, body)

    def _develop(self, command: str, **parameters: Any) -> Any:
        return self._post("/goog/cdp/execute", cmd=command, params=parameters)

    def look(self, width: int, height: int = 1000, scheme: str = "light") -> None:
        """Sets the size of the window and whether its owner prefers light or dark pages."""
        self._develop(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False
        )
        self._develop("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def open(self, path: Path) -> None:
        self.visit(path.as_uri())

    def visit(self, address: str) -> None:
        self._post("/url", url=address)

    def into_frame(self, place: int) -> None:
        """Goes on inside of a frame of the page."""
        self._post("/frame", id=place)

    def do(self, script: str, *arguments: Any) -> Any:
        """Runs a script in the page and returns what it returns, waiting for promises."""
        return self._post("/execute/sync", script=script, args=list(arguments))

    def click(self, selector: str) -> None:
        found = self._post("/element", using="css selector", value=selector)[ELEMENT]
        self._post(f"/element/{found}/click")

    def press(self, *keys: str) -> None:
        """Presses and releases keys, named as in `KEYS` or as they are, where the focus is."""
        actions = [{"type": kind, "value": KEYS.get(key, key)} for key in keys for kind in ("keyDown", "keyUp")]
        self._post("/actions", actions=[{"type": "key", "id": "keyboard", "actions": actions}])

    def click_at(self, x: float, y: float) -> None:
        pointer = [
            {"type": "pointerMove", "duration": 0, "x": round(x), "y": round(y)},
            {"type": "pointerDown", "button": 0},
            {"type": "pointerUp", "button": 0},
        ]
        self._post("/actions", actions=[{"type": "pointer", "id": "mouse", "actions": pointer}])

    def wait(self, script: str, *arguments: Any, seconds: float = 20) -> None:
        """Waits until a script returns something true."""
        end = time.monotonic() + seconds
        while not self.do(script, *arguments):
            assert time.monotonic() < end, f"waited {seconds} seconds for {script}"
            time.sleep(0.05)

    def errors(self) -> list[str]:
        """What the page logged as errors since the last call."""
        entries = self._post("/se/log", type="browser")
        return [entry["message"] for entry in entries if entry["level"] == "SEVERE"]

    def screenshot(self, path: Path, whole: bool = False) -> None:
        shot = self._develop("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(shot["data"]))
