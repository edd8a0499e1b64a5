"""A page with everything on it, and a headless Chromium that is told what to do over its DevTools pipe."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from navi.report import (
    Bars,
    Code,
    Column,
    Distribution,
    Lines,
    Map,
    Number,
    Page,
    Reliability,
    Section,
    Table,
    Tile,
    Tiles,
    write_report,
)

# A machine busy with something else must not fail a law.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")

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


NASTY = "<script>document.title = 'broken'</script><img src=x onerror=alert(1)>{{ 7 * 7 }}"
"""What a cell may hold."""


def make_table() -> Table:
    """Return a table with every kind of cell."""
    return Table(
        "Models compared.",
        (
            "model",
            Column("F1", "Movie", best="highest"),
            Column("distance", "Movie", best="lowest", digits=2),
            Column("sure", bar=True, percent=True),
            "right",
            "remark",
        ),
        (
            ("BERT", Number(0.912, 0.013), 0.5, 0.25, True, "10 apples"),
            ("NAVI", Number(0.928, 0.01, 0.017), 0.25, 1.0, False, NASTY),
            ("TAPAS", None, 0.75, None, True, "9 apples"),
            ("CM2", Number(0.814), -0.5, 0.5, None, "a long remark " * 12),
        ),
        note="See `navi evaluate`.",
        highlight=("NAVI",),
    )


def make_map() -> Map:
    """Return a map of a grid of points, whose labels are not to be trusted."""
    places = [(float(x), float(y)) for x in range(6) for y in range(5)]
    return Map(
        caption="Segments.",
        x=tuple(x for x, _ in places),
        y=tuple(y for _, y in places),
        labels={
            "table": tuple(f"table{x:.0f}" for x, _ in places),
            "header": tuple(f"header{y:.0f}" for _, y in places),
            "value": (NASTY,) * len(places),
            "image": ("https://example.org/pixel.png",) * len(places),
            "role": tuple("low" if x < 3 else "high" for x, _ in places),
        },
        colour="role",
        hulls="role",
    )


@pytest.fixture(scope="session")
def page() -> Page:
    """A page with everything that there is."""
    bars = Bars(
        caption="Bars.",
        categories=("naming columns of tables that were never seen", "filling"),
        series={"NAVI": (0.8, 0.5), "guess": (0.2, None)},
        deviations={"NAVI": (0.02, None)},
        percent=True,
        quiet=("guess",),
    )
    lines = Lines(
        caption="Lines.", series={"a": ((0, 3.0), (5, 1.0)), "b": ((0, 2.0),)}, x_title="step", y_title="loss"
    )
    shares = Distribution.from_values({"a": [0.1, 0.2, 0.9], "b": [0.5]}, bins=4, caption="Shares.", title="cosine")
    trust = Reliability.from_outcomes({"a": ([0.1, 0.9, 0.95], [False, True, False])}, caption="Trust.")
    return Page(
        f"A page of {NASTY}",
        "The lead with `code < here`.\n\nAnd more.",
        (
            Section("Tables", "Some text.", (Tiles((Tile("rows", "5,600", "in 14 tables"),)), make_table())),
            Section("Figures", "", (make_map(), bars, lines, shares, trust)),
            Section("Next", "", (Code("navi prepare FOLDER -o corpus && echo '<done>'"),)),
        ),
    )


@pytest.fixture(scope="session")
def written(page: Page, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page as a file."""
    return write_report(page, tmp_path_factory.mktemp("report") / "results")


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A browser for the whole session."""
    if find_chromium() is None:
        pytest.skip("there is no Chromium here")
    running = Browser(tmp_path_factory.mktemp("profile"))
    yield running
    running.close()
