"""Make the pictures of `navi studio` in docs/figures, from the demo's tables, with Chromium and its driver.

python scripts/screenshots.py
"""

from __future__ import annotations

import base64
import io
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from PIL import Image
from selenium import webdriver

from navi.simulator import SimulatorConfig, write_catalogues

FIGURES = Path(__file__).resolve().parents[1] / "docs" / "figures"
PAGES = {
    "columns": "/columns",
    "rows": "/rows?left=cinefolio&right=kinothek",
    "map": "/map",
}
WIDTH, HEIGHT = 1280, 800


def open_browser(profile: str) -> webdriver.Chrome:
    """Return a browser with an empty profile, in light colours."""
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or "chromium"
    for flag in ("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars"):
        options.add_argument(flag)
    options.add_argument(f"--user-data-dir={profile}")
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))
    size = {"width": WIDTH, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    return driver


def wait(driver: webdriver.Chrome) -> None:
    """Wait until a page, and the map on it, are as they stay."""
    while driver.execute_script(
        "return document.readyState !== 'complete' || !!document.querySelector('progress')"
        " || (document.querySelector('canvas') && !document.querySelector('canvas').dataset.drawn)"
        " || !!document.querySelector('#method')?.textContent.includes('at work')"
    ):
        time.sleep(0.5)


def main() -> None:
    """Start a studio on the demo's tables, and take a picture of each page."""
    with tempfile.TemporaryDirectory() as folder:
        write_catalogues(f"{folder}/feeds", SimulatorConfig(width=0.5))
        command = [sys.executable, "-m", "navi", "studio", "feeds", "--no-browser"]
        studio = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True)
        assert studio.stdout is not None
        found = re.search(r"(http://\S+)/open\?token=\S+", studio.stdout.readline())
        assert found is not None
        driver = open_browser(f"{folder}/profile")
        try:
            driver.get(found[0])
            wait(driver)
            for name, path in PAGES.items():
                driver.get(found[1] + path)
                wait(driver)
                taken = driver.execute_cdp_cmd("Page.captureScreenshot", {"format": "png"})["data"]
                file = FIGURES / f"studio_{name}.png"
                Image.open(io.BytesIO(base64.b64decode(taken))).convert("RGB").save(file, optimize=True)
                print(f"{file.name}: {file.stat().st_size / 1024:.0f} KiB")
        finally:
            driver.quit()
            studio.terminate()
            studio.wait()


if __name__ == "__main__":
    main()
