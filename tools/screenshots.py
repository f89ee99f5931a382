"""Pictures of the page: every view at three sizes, light and dark, into build/screenshots.

`make build/demo.ordbm` first. `--for-docs` takes the one of the README, docs/_static/page.png.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

import numpy as np
from browser import ARGUMENTS, browser_path
from playwright.sync_api import Browser, sync_playwright

from ordbm.datasets import load_titles

ROOT = Path(__file__).parents[1]
MODEL = ROOT / "build" / "demo.ordbm"
SHOWN = ROOT / "docs" / "_static" / "page.png"
SIZES = {"phone": (390, 844), "tablet": (820, 1180), "desktop": (1280, 900)}
VIEWS = {"list": "", "item": "item/858", "map": "map", "together": "together",
         "operator": "operator"}  # fmt: skip
YOURS = {6: 4.5, 1: 2, 1206: 4.5, 1198: 4, 318: 5}
THEIRS = {1: 5, 4306: 4.5, 593: 2, 2918: 4}


@contextmanager
def served() -> Iterator[str]:
    """The address of a service of the demo's model, with a database that goes away."""
    if not MODEL.is_file():
        sys.exit(f"{MODEL} is not there: make build/demo.ordbm")
    with tempfile.TemporaryDirectory() as folder:
        told = [
            "--database",
            f"sqlite:///{folder}/ratings.sqlite3",
            "--titles",
            "movielens-small",
            "--log-level",
            "error",
            "--timeout",
            "120",
        ]  # nobody reads the log, and a full pipe would stop it
        process = subprocess.Popen(
            [sys.executable, "-m", "ordbm", "serve", MODEL, "--port", "0", *told],
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        try:
            assert process.stderr is not None
            lines = (line for line in process.stderr if line.startswith("ordbm: http"))
            url = next(lines).split()[1]
            while not _is_ready(url):
                time.sleep(0.2)
            _store_some(url)
            yield url
        finally:
            process.terminate()
            process.communicate()


def _store_some(url: str) -> None:
    """Ratings of people who came, for the operator to look at."""
    rng = np.random.default_rng(0)
    items = [one["item"] for one in _asked(f"{url}/v1/items?limit=200")["items"]]
    lines = [
        json.dumps({"user": 9000 + user, "item": items[item], "rating": max(0.5, level / 2)})
        for user in range(30)
        for item, level in zip(
            rng.choice(200, 12, replace=False).tolist(),
            np.clip(np.rint(rng.normal(7.4, 1.8, 12)), 1, 10).tolist(),
            strict=True,
        )
    ]
    headers = {"Content-Type": "application/x-ndjson"}
    told = "\n".join(lines).encode()
    _asked(Request(f"{url}/v1/ratings", told, headers))  # noqa: S310


def _asked(what: Any) -> Any:
    with urlopen(what, timeout=60) as answer:  # noqa: S310
        return json.load(answer)


def _is_ready(url: str) -> bool:
    try:
        with urlopen(f"{url}/health/ready", timeout=30) as answer:  # noqa: S310
            return bool(answer.status == 200)
    except (URLError, OSError):
        return False


def take(browser: Browser, url: str, view: str, path: Path, **told: Any) -> None:
    """One picture, of a visitor who has rated a few titles; of the list, after one more."""
    titles = load_titles("movielens-small")
    context = browser.new_context(reduced_motion="reduce", **told)
    context.set_default_timeout(120_000)
    page = context.new_page()
    page.goto(url)
    for name, ratings in (("you", YOURS), ("companion", THEIRS)):
        kept = [
            {"item": item, "title": titles[item], "rating": rating}
            for item, rating in ratings.items()
        ]
        page.evaluate(f"all => sessionStorage.setItem('ordbm {name}', all)", json.dumps(kept))
    page.goto(f"{url}/#/{VIEWS[view]}")
    page.reload()
    page.locator("main h1").wait_for()
    if view == "list":
        row = page.locator(".main-column .row", has_text="Forrest Gump")
        row.get_by_role("radio", name="4.5 stars").click()
        page.locator(".why").first.wait_for()
        page.evaluate("scrollTo(0, 0)")
    page.wait_for_load_state("networkidle")
    page.mouse.move(0, 0)
    path.parent.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=path)
    context.close()
    print(f"{path.relative_to(ROOT)}: {path.stat().st_size // 1024} KB")


def main() -> None:
    """Take them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--for-docs", action="store_true", help=f"only {SHOWN.relative_to(ROOT)}")
    parser.add_argument("views", nargs="*", choices=[*VIEWS, []], help="all unless said")
    told = parser.parse_args()
    for_docs, told_views = told.for_docs, told.views
    program, why = browser_path()
    if program is None:
        sys.exit(why)
    with served() as url, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=ARGUMENTS)
        if for_docs:
            size = {"width": 1280, "height": 840}
            take(browser, url, "list", SHOWN, viewport=size, device_scale_factor=1.5)
            return
        for view in told_views or VIEWS:
            for name, (width, height) in SIZES.items():
                for scheme in ("light", "dark"):
                    path = ROOT / "build" / "screenshots" / f"{view}-{name}-{scheme}.png"
                    size = {"width": width, "height": height}
                    take(browser, url, view, path, viewport=size, color_scheme=scheme)


if __name__ == "__main__":
    main()
