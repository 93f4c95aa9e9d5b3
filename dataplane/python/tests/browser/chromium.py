"""Debian's chromium, driven by Playwright."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome")
# Root has no sandbox. Nothing but the page is to be asked for.
FLAGS = [
    "--no-sandbox",
    "--headless",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def executable() -> str:
    """PEERCACHE_CHROMIUM, or the first of the usual names on PATH."""
    named = os.environ.get("PEERCACHE_CHROMIUM")
    path = named or next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        raise FileNotFoundError(
            f"none of {', '.join(NAMES)} is on PATH: apt-get install chromium, "
            "or hack/dev/deps.sh; or name a Chromium with PEERCACHE_CHROMIUM"
        )
    return path


@contextmanager
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable(), args=FLAGS)
        try:
            yield browser
        finally:
            browser.close()
