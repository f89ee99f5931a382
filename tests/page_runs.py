"""A browser, and a server of a small model of embedded ratings, for tests of the page."""

import csv
import importlib.util
import threading
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import httpx2 as httpx
import numpy as np
import pytest
import uvicorn

import ordbm
from ordbm.cli.serve import _store_titles
from ordbm.datasets import load_titles
from ordbm.serve.application import application
from ordbm.serve.service import Service
from ordbm.serve.serving import bound_socket, prepare
from service_runs import until

TOOL = Path(__file__).parents[1] / "tools" / "browser.py"
HOSTILE = '<img src=x onerror="window.harmed=1">'  # the title of the best known item
HEAT, GODFATHER, TOY_STORY = 6, 858, 1


@cache
def page_model():
    """Of the better known titles, learnt in a moment."""
    whole = ordbm.load_dataset("movielens-small")
    often = np.bincount(whole.item_codes)[whole.item_codes] >= 60
    few = whole.to_frame("pandas")[often & (whole.user_codes < 300)]
    told = {"hidden": 6, "members": 1, "epochs": 5, "item_links": 8, "seed": 0, "threads": 1}
    ratings = ordbm.Ratings(few.user, few.item, few.rating, scale=whole.scale)
    return ordbm.OrdinalBM(**told).fit(ratings)


def continuous_model():
    """Of ratings that are any numbers."""
    rng = np.random.default_rng(0)
    user, item = np.divmod(rng.permutation(600)[:360], 30)
    ratings = ordbm.Ratings(user, item, rng.normal(3, 1, 360), scale="continuous")
    return ordbm.OrdinalBM(hidden=2, members=1, epochs=2, threads=1).fit(ratings)


def write_titles(path):
    """Titles of all items; that of the best known one is an attack."""
    titles = load_titles("movielens-small") | {356: HOSTILE}
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("item", "title"), *titles.items()])
    return path


@contextmanager
def chromium():
    """A browser that the tests find or install; without one they are skipped, and say so."""
    sync_api = pytest.importorskip(
        "playwright.sync_api", reason="tests of the page need playwright"
    )
    spec = importlib.util.spec_from_file_location("browser", TOOL)
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    path, told = tool.browser_path()
    if path is None:
        pytest.skip(told)
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=tool.ARGUMENTS)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def serving(settings, titles=None):
    """The address of a service in a thread of this process, where kernels are compiled already."""
    prepare(settings)
    if titles is not None:
        _store_titles(settings, str(titles))
    run = settings.model.parent / "run"
    run.mkdir(exist_ok=True)
    listening = bound_socket(settings.host, 0)
    listening.listen()  # who comes before the server has started waits for it
    app = application(Service(settings, run))
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False, ws="none"))
    thread = threading.Thread(target=server.run, args=([listening],))
    thread.start()
    url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    try:
        with httpx.Client(base_url=url, timeout=60) as client:
            until(lambda: client.get("/health/ready").status_code == 200)
            yield client
    finally:
        server.should_exit = True
        thread.join()
        listening.close()


class Visit:
    """A visitor with a tab of their own; whatever the browser complains of fails the test."""

    def __init__(self, browser, client, **told):
        told = {"viewport": {"width": 1280, "height": 900}, "reduced_motion": "reduce"} | told
        self.context = browser.new_context(**told)
        base = str(client.base_url).rstrip("/")
        self.page, self.url, self.asked, self.complaints = self.context.new_page(), base, [], []
        self.page.set_default_timeout(60_000)
        self.page.on("request", self._asks)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("console", self._heard)

    def _asks(self, request):
        self.asked.append(request)

    def _heard(self, message):
        if message.type in ("error", "warning") and "status of 40" not in message.text:
            self.complaints.append(message.text)

    def open(self, view=""):
        """Go to a view, and wait until it stands."""
        self.page.goto(f"{self.url}/#/{view}")
        self.page.reload()
        self.page.locator("main h1").first.wait_for()
        return self.page

    def rows(self):
        """The titles of the list, in order, once it is there."""
        self.page.locator(".main-column .row").first.wait_for()
        return self.page.locator(".main-column .row .title").all_text_contents()

    def wait(self, script, told=None):
        """Until it holds; the policy forbids Playwright's own way, which evaluates in the page."""
        until(lambda: self.page.evaluate(script, told))

    def given(self):
        """What the tab holds of the visitor's ratings, by item."""
        script = "JSON.parse(sessionStorage.getItem('ordbm you') ?? '[]')"
        return {one["item"]: one["rating"] for one in self.page.evaluate(script)}

    def rate(self, title, spoken):
        """Click a rating of a title that is in the list or was found."""
        row = self.page.locator(".row", has_text=title).first
        row.get_by_role("radio", name=spoken, exact=True).click()

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        self.context.close()
        if kind is None:
            assert not self.complaints
