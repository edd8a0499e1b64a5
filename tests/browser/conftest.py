"""A browser that the tests drive, and studios to open in it; skipped where Chromium or its driver is not installed."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)
PATIENCE = 600


class Browser:
    """Chromium, and what the tests do with it."""

    def __init__(self, profile: Path) -> None:
        webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
        chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
        if chromium is None or driver is None:
            pytest.skip("Chromium and its driver are not installed")
        options = webdriver.ChromeOptions()
        options.binary_location = chromium
        for flag in (*FLAGS, f"--user-data-dir={profile}"):
            options.add_argument(flag)
        self.driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
        self.driver.set_script_timeout(120)

    def show(self, width: int = 1280, height: int = 900, *, dark: bool = False) -> None:
        """Change the window, and the colours that the person prefers."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})

    def run(self, script: str, *arguments: Any) -> Any:
        """Run a script, which may wait, in the page."""
        code = "const done = arguments[arguments.length - 1];"
        code += f"(async (...args) => {{ {script} }})(...arguments).then(done, (e) => done(String(e)));"
        return self.driver.execute_async_script(code, *arguments)

    def wait(self, script: str) -> Any:
        """Return what a script gives as soon as it gives anything."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            if found := self.driver.execute_script(script):  # at once: the page may load itself again
                return found
            time.sleep(0.05)
        raise AssertionError(f"{script} never came true on {self.driver.current_url}: {self.text('main')[:500]}")

    def text(self, selector: str) -> str:
        """Return the text of the first element."""
        return str(self.run("return document.querySelector(args[0])?.textContent ?? ''", selector))

    def open(self, address: str) -> None:
        """Open a page, and wait until nothing is at work any more."""
        self.driver.get(address)
        self.wait(
            "return document.readyState === 'complete' && !document.querySelector('progress')"
            " && document.querySelector('canvas')?.dataset.drawn !== undefined"
            " || document.readyState === 'complete' && !document.querySelector('progress, canvas')"
        )

    def press(self, *keys: str) -> None:
        """Press keys where the focus is."""
        from selenium.webdriver import ActionChains

        for key in keys:
            ActionChains(self.driver).send_keys(key).perform()

    def click(self, selector: str) -> None:
        """Click at the first element, as a mouse does."""
        from selenium.webdriver import ActionChains

        found = self.driver.find_element("css selector", selector)
        self.driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", found)
        ActionChains(self.driver).move_to_element(found).click().perform()


class StudioProcess:
    """`navi studio` in a process of its own."""

    def __init__(self, folder: Path, model: Path) -> None:
        command = [sys.executable, "-m", "navi", "studio", str(folder), "--no-browser", "--model", str(model)]
        command += ["--decisions", str(folder.parent / "decisions.csv"), "--labels", str(folder.parent / "labels.csv")]
        self.process = subprocess.Popen(
            [*command, "--device", "cpu"], stdout=subprocess.PIPE, text=True, env={**os.environ, "COLUMNS": "200"}
        )
        assert self.process.stdout is not None
        found = re.search(r"(http://\S+)/open\?token=\S+", self.process.stdout.readline())
        assert found
        self.link, self.address = found[0], found[1]

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """End the process."""
        self.process.send_signal(how)
        self.process.communicate(timeout=PATIENCE)


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    """A new browser with an empty profile."""
    opened = Browser(tmp_path / "profile")
    opened.show()
    yield opened
    opened.driver.quit()


@pytest.fixture
def open_studio(browser: Browser, reference_dir: Path) -> Iterator[Callable[[Path], StudioProcess]]:
    """Start a studio on a folder, and open it in the browser; it is stopped when the test ends."""
    started: list[StudioProcess] = []

    def start(folder: Path) -> StudioProcess:
        started.append(StudioProcess(folder, reference_dir))
        browser.open(started[-1].link)
        return started[-1]

    yield start
    for each in started:
        if each.process.poll() is None:
            each.stop()


@pytest.fixture(scope="session")
def axe() -> str:
    """The script of axe-core, where npm has installed it."""
    roots = [Path.cwd() / "node_modules", Path.home() / "node_modules"]
    roots += [Path(os.environ["NODE_PATH"])] if os.environ.get("NODE_PATH") else []
    if npm := shutil.which("npm"):
        roots.append(
            Path(subprocess.run([npm, "root", "-g"], capture_output=True, text=True, check=True).stdout.strip())
        )
    found = next((root / "axe-core/axe.min.js" for root in roots if (root / "axe-core/axe.min.js").is_file()), None)
    if found is None:
        pytest.skip("axe-core is not installed: npm install --global axe-core")
    return found.read_text(encoding="utf-8")
