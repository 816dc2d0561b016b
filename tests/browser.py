"""A headless Chromium for tests of pages: opened from disk, at a stated width, light or dark."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from selenium.common.exceptions import WebDriverException
from selenium.webdriver import Chrome
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.support.ui import WebDriverWait

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
CHROMEDRIVER = shutil.which("chromedriver")
needs_browser = pytest.mark.skipif(not (CHROMIUM and CHROMEDRIVER), reason="needs chromium and chromedriver")
"""`make test` installs them; a test that needs them says so by this mark."""

QUIET = (
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-quic",
    "--disable-sync",
    "--no-first-run",
)
"""Without these a browser looks up its maker's hosts when it starts; a test connects to this machine only."""


STARTS = 3
PATIENCE_S = 20
ALL_NEAR_CHARTS_ARE_LIVE = """
    const far = 900;  // charts.js makes charts live one by one, from so many pixels outside the viewport on
    return [...document.querySelectorAll('figure.chart')].every(one => {
        const at = one.getBoundingClientRect();
        return one.matches('.chart-on') || at.bottom < -far || at.top > innerHeight + far;
    });
"""


@contextlib.contextmanager
def browser(width: int = 1280, height: int = 900) -> Iterator[Chrome]:
    """Start a browser, and end it."""
    assert CHROMIUM and CHROMEDRIVER
    options = Options()
    options.binary_location = CHROMIUM
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", *QUIET):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    one = _started(options)
    try:
        resize(one, width, height)
        yield one
    finally:
        one.quit()


def _started(options: Options) -> Chrome:
    """The instrument, not what is tested: on a machine whose processors are all busy a start may fail, not three."""
    failures: list[WebDriverException] = []
    while len(failures) < STARTS:
        try:
            return Chrome(options=options, service=Service(CHROMEDRIVER))
        except WebDriverException as failed:
            failures.append(failed)
    raise ExceptionGroup(f"Chromium did not start in {STARTS} attempts", failures)


def resize(one: Chrome, width: int, height: int = 900) -> None:
    """Give the window this size; narrow ones are phones."""
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
    one.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def prefer(one: Chrome, scheme: str) -> None:
    """Have the system prefer `light` or `dark`."""
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    one.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})


def open_page(one: Chrome, path: Path, anchor: str = "") -> None:
    one.get(path.resolve().as_uri() + anchor)


def until(one: Chrome, script: str) -> Any:
    """Wait until the script returns something that is true, and return it."""
    return WebDriverWait(one, PATIENCE_S, poll_frequency=0.02).until(lambda driver: driver.execute_script(script))


def await_charts(one: Chrome) -> None:
    """Wait until every chart near the viewport reacts to a reader; a page is complete before."""
    until(one, ALL_NEAR_CHARTS_ARE_LIVE)


def complaints(one: Chrome) -> list[str]:
    """Errors and warnings of the page's scripts, and what it failed to load."""
    return [str(entry["message"]) for entry in one.get_log("browser")]
