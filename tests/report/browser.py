"""A headless Chromium, told what to do over its DevTools pipe."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)
PATIENCE = 30
"""Seconds that an answer may take."""


def find_chromium() -> str | None:
    """Return the browser's path, None if there is none."""
    return next((found for found in map(shutil.which, NAMES) if found), None)


class Browser:
    """A running browser; pages are opened in it, one after the other."""

    def __init__(self, folder: Path) -> None:
        to_child, self._out = os.pipe()
        self._in, from_child = os.pipe()
        # The browser reads commands from descriptor 3 and answers on 4.
        command = f'exec "$0" "$@" 3<&{to_child} 4>&{from_child}'
        arguments = [*FLAGS, f"--user-data-dir={folder}", "about:blank"]
        self._process = subprocess.Popen(
            ["/bin/bash", "-c", command, find_chromium(), *arguments],
            pass_fds=(to_child, from_child),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_child)
        os.close(from_child)
        self._rest, self._number, self.events = b"", 0, []

    def send(self, method: str, session: str | None = None, **parameters: object) -> dict:
        """Send a command and return its result; events that come meanwhile are kept."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._number:
                assert "error" not in answer, (method, answer)
                return answer["result"]
            self.events.append(answer)

    def _receive(self) -> dict:
        while b"\0" not in self._rest:
            assert select.select([self._in], [], [], PATIENCE)[0], "the browser does not answer"
            piece = os.read(self._in, 1 << 20)
            assert piece, "the browser is gone"
            self._rest += piece
        message, self._rest = self._rest.split(b"\0", 1)
        return json.loads(message)

    def open(self, file: Path, *, width: int = 1280, height: int = 900, dark: bool = False) -> Tab:
        """Open a page in a window of this size, and wait until its figures are drawn."""
        return Tab(self, file, width, height, dark)

    def close(self) -> None:
        """End the browser."""
        os.close(self._out)
        os.close(self._in)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class Tab:
    """An open page."""

    def __init__(self, browser: Browser, file: Path, width: int, height: int, dark: bool) -> None:
        self._browser = browser
        target = browser.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = browser.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")
        self.send(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        self.prefer(dark=dark)
        self.send("Page.navigate", url=file.as_uri())
        self.wait("document.readyState === 'complete' && location.protocol === 'file:'")
        self.wait("!document.querySelector('.chart') || document.documentElement.dataset.drawn === 'yes'")

    def send(self, method: str, **parameters: object) -> dict:
        """Send a command to the page."""
        return self._browser.send(method, self._session, **parameters)

    def prefer(self, *, dark: bool = False, media: str = "") -> None:
        """Ask for light or dark, for screen or print."""
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.send("Emulation.setEmulatedMedia", media=media, features=scheme)

    def ask(self, expression: str) -> object:
        """Return what an expression comes to in the page."""
        answer = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def wait(self, expression: str) -> None:
        """Wait until an expression is true in the page."""
        end = time.monotonic() + PATIENCE
        while not self.ask(f"Boolean({expression})"):
            assert time.monotonic() < end, f"never true: {expression}; {self.complaints}"
            time.sleep(0.02)

    def move(self, x: float, y: float) -> None:
        """Move the mouse."""
        self.send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def press(self, key: str) -> None:
        """Press a key where the focus is."""
        text = {"Enter": "\r", " ": " "}.get(key, "")
        self.send("Input.dispatchKeyEvent", type="keyDown", key=key, text=text, windowsVirtualKeyCode=ord(text or "\t"))
        self.send("Input.dispatchKeyEvent", type="keyUp", key=key)

    def photograph(self, file: Path, *, whole: bool = True) -> None:
        """Write a picture of the page."""
        made = self.send("Page.captureScreenshot", captureBeyondViewport=whole)
        file.write_bytes(base64.b64decode(made["data"]))

    @property
    def complaints(self) -> list[str]:
        """What the page's console had to say so far."""
        self.ask("0")
        named = ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded")
        return [json.dumps(event["params"]) for event in self._events if event["method"] in named]

    @property
    def requests(self) -> list[str]:
        """The addresses that the page asked for so far."""
        self.ask("0")
        sent = [event["params"] for event in self._events if event["method"] == "Network.requestWillBeSent"]
        return [each["request"]["url"] for each in sent]

    @property
    def _events(self) -> list[dict]:
        return [event for event in self._browser.events if event.get("sessionId") == self._session]
