"""The page in a real browser: rating, moving, undoing, by mouse and by keys; nothing gets in."""

import json
import re

import pytest

from ordbm.serve.key_ring import add_key
from page_runs import (
    GODFATHER,
    HEAT,
    HOSTILE,
    TOY_STORY,
    Visit,
    chromium,
    continuous_model,
    page_model,
    serving,
    write_titles,
)
from service_runs import settings_for, small_model

pytest.importorskip("fastapi", reason="the service needs the extra serve")
AXE = {"rules": {"target-size": {"enabled": True}}, "resultTypes": ["violations"]}
VIEWS = ["", f"item/{GODFATHER}", "map", "together", "operator"]


@pytest.fixture(scope="module")
def browser():
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("page")


@pytest.fixture(scope="module")
def server(folder, browser):  # noqa: ARG001 -- without a browser there is no use in one
    """A client of the service that the page is of."""
    titles = write_titles(folder / "titles.csv")
    with serving(settings_for(page_model(), folder), titles) as found:
        for number, item in enumerate((HEAT, GODFATHER, TOY_STORY) * 4):
            address = f"/v1/users/{9000 + number}/ratings/{item}"
            assert found.put(address, json={"rating": 1 + number % 5}).status_code == 200
        yield found


@pytest.fixture
def visit(browser, server):
    with Visit(browser, server) as found:
        yield found


def expected_of(server, ratings, item):
    """The expected rating as the API has it."""
    told = [{"item": one, "rating": rating} for one, rating in ratings.items()]
    answer = server.post("/v1/predict", json={"ratings": told, "items": [item]})
    return answer.json()["predictions"][0]["mean"]


def search_for(page, text):
    page.get_by_role("searchbox").first.fill(text)
    page.locator(".found .row", has_text=text).first.wait_for()


def test_a_visitor_rates_and_the_list_tells_what_moved_and_why(visit, server):
    page = visit.open()
    before = visit.rows()
    assert "Rate a few titles" in page.locator("h1").text_content()
    search_for(page, "Heat")
    visit.rate("Heat (1995)", "4.5 stars")
    page.locator(".why").first.wait_for()
    assert visit.given() == {HEAT: 4.5}
    after = visit.rows()
    assert after != before
    assert "Heat (1995)" not in after
    assert page.locator(".badge").count() > 0
    for why in page.locator(".row", has=page.locator(".why b")).all():
        change, was = re.match(
            r"([+−±][\d.]+) from ([\d.]+) because you rated Heat 4½",
            why.locator(".why").text_content(),
        ).groups()
        shown = float(why.locator(".figure").text_content())
        assert shown == pytest.approx(float(was) + float(change.replace("−", "-")), abs=1e-9)
        item = int(re.search(r"/item/(\d+)", why.locator(".title").get_attribute("href"))[1])
        assert shown == pytest.approx(expected_of(server, {HEAT: 4.5}, item), abs=0.006)
        assert float(was) == pytest.approx(expected_of(server, {}, item), abs=0.006)
    page.get_by_role("button", name="Undo").click()
    visit.wait("document.querySelector('.news').textContent.includes('took back')")
    assert visit.rows() == before
    assert visit.given() == {}
    page.get_by_role("button", name="Redo").click()
    visit.wait("document.querySelector('.news').textContent.includes('rated Heat')")
    assert visit.rows() == after


def test_what_if_is_shown_and_never_stored(visit):
    page = visit.open()
    search_for(page, "Heat")
    visit.rate("Heat (1995)", "5 stars")
    page.locator(".why").first.wait_for()
    real = visit.rows()
    page.get_by_role("button", name="What if Heat (1995) were").click()
    banner = page.get_by_role("region", name="What if")
    banner.get_by_role("radio", name="1 star", exact=True).click()
    visit.wait("document.querySelector('.news').textContent.includes('were 1:')")
    assert visit.given() == {HEAT: 5}
    assert "If Heat were 1" in page.locator(".news").text_content()
    banner.get_by_role("button", name="Leave it").click()
    banner.wait_for(state="hidden")
    visit.wait("document.querySelector('.news').textContent === ''")
    assert visit.rows() == real


def test_by_keys_alone(visit):
    """Rates, undoes, opens the page of a title, moves the slider."""
    page = visit.open()
    before = visit.rows()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"

    def tab_to(matches):
        for _ in range(60):
            page.keyboard.press("Tab")
            if page.evaluate(f"document.activeElement.matches({json.dumps(matches)})"):
                return
        raise AssertionError(f"no Tab leads to {matches}")

    tab_to("input[type=search]")
    page.keyboard.type("heat")
    page.locator(".found .row").first.wait_for()
    tab_to(".found input[type=radio]")
    for _ in range(7):  # an arrow chooses, and gives nothing yet
        page.keyboard.press("ArrowRight")
    assert visit.given() == {}
    assert page.evaluate("document.activeElement.ariaLabel") == "4 stars"
    page.keyboard.press("Enter")
    page.locator(".why").first.wait_for()
    assert visit.given() == {HEAT: 4}
    assert page.evaluate("document.activeElement !== document.body")
    page.keyboard.press("Escape")
    tab_to("input[type=range]")
    page.keyboard.press("Control+z")
    visit.wait("document.querySelector('.news').textContent.includes('took back')")
    assert visit.rows() == before
    assert page.evaluate("document.activeElement.matches('input[type=range]')")

    page.keyboard.press("End")
    visit.wait("!document.querySelector('.surprise output').textContent.includes('any')")
    visit.wait(
        "first => document.querySelector('.main-column .title').textContent !== first",
        before[0],
    )
    tab_to(".main-column .row .title")
    page.keyboard.press("Enter")
    visit.wait("location.hash.startsWith('#/item/')")
    page.locator(".big-shape svg").first.wait_for()
    assert page.evaluate("document.activeElement.id") == "main"


def test_a_rating_in_the_list_keeps_the_place_of_the_keys(visit):
    page = visit.open()
    visit.rows()
    third = page.locator(".main-column .row").nth(2)
    title = third.locator(".title").text_content()
    third.get_by_role("radio", name="3 stars", exact=True).focus()
    page.keyboard.press("Space")
    page.keyboard.press("Enter")
    page.locator(".why, .badge").first.wait_for()
    assert title not in visit.rows()
    held = page.evaluate("document.activeElement.closest('.row .mine').dataset.hold")
    assert held == "rate 2"


def test_the_page_of_a_title_adds_up(visit, server):
    page = visit.open()
    search_for(page, "Heat")
    visit.rate("Heat (1995)", "4.5 stars")
    page.locator(".why").first.wait_for()
    search_for(page, "Toy Story (1995)")
    visit.rate("Toy Story (1995)", "2 stars")
    visit.wait("document.querySelector('.news').textContent.includes('Toy Story')")
    page.goto(f"{visit.url}/#/item/{GODFATHER}")
    page.locator(".story-table").wait_for()
    figures = page.locator(".story-table .number").all_text_contents()
    first, *changes, last = (float(one.replace("−", "-").replace("±", "")) for one in figures)
    assert len(changes) == 2
    assert last == pytest.approx(first + sum(changes), abs=1e-9)
    assert last == pytest.approx(
        expected_of(server, {HEAT: 4.5, TOY_STORY: 2}, GODFATHER), abs=0.006
    )
    names = page.locator(".card").evaluate_all("all => all.map(one => one.ariaLabel)")
    assert {"How people rated it", "Similar titles", "Rated together", "Rated alike"} <= set(names)


def test_the_map_moves_and_two_people_find_a_title(visit):
    page = visit.open("map")
    place = page.locator(".map .you").get_attribute("transform")
    search_for(page, "Heat")
    visit.rate("Heat (1995)", "5 stars")
    visit.wait(
        "was => document.querySelector('.map .you').getAttribute('transform') !== was", place
    )
    page.get_by_role("link", name="Together").click()
    page.get_by_role("searchbox", name="Search titles they know").fill("Toy Story (1995)")
    visit.rate("Toy Story (1995)", "5 stars")
    page.locator(".pairs .row").first.wait_for()
    chances = page.locator(".chance .figure").all_text_contents()
    numbers = [float(one.removesuffix(" %")) for one in chances]
    assert numbers == sorted(numbers, reverse=True)
    titles = page.locator(".pairs .title").all_text_contents()
    assert not {"Heat (1995)", "Toy Story (1995)"} & set(titles)
    assert visit.given() == {HEAT: 5}


def test_the_operator_sees_what_the_service_measures(visit, server):
    page = visit.open("operator")
    page.get_by_role("img", name="Calibration").wait_for()
    quality = server.get("/v1/model/quality").json()
    assert page.get_by_role("img", name="Calibration").locator("circle").count() == len(
        quality["calibration"]
    )
    assert page.get_by_role("img", name="Levels").locator("rect").count() == 20
    facts = page.get_by_role("region", name="Newest ratings").text_content()
    assert f"{quality['log_loss']:.3f}" in facts
    assert server.get("/v1/model").json()["version"] in page.locator(".facts").first.text_content()
    row = page.get_by_role("row", name="PUT /v1/users/{user}/ratings/{item}")
    assert row.get_by_role("cell").first.text_content() == "12"


def test_ratings_can_be_taken_along_and_forgotten(visit, server):
    page = visit.open()
    search_for(page, "Heat")
    visit.rate("Heat (1995)", "4.5 stars")
    page.locator(".why").first.wait_for()
    with page.expect_download() as download:
        page.get_by_role("button", name="Export").click()
    exported = json.loads(download.value.path().read_text(encoding="utf-8"))
    told = [{"item": one["item"], "rating": one["rating"]} for one in exported["ratings"]]
    assert told == [{"item": HEAT, "rating": 4.5}]
    body = {"ratings": told, "items": [GODFATHER]}
    assert server.post("/v1/predict", json=body).status_code == 200
    page.reload()
    visit.rows()
    assert visit.given() == {HEAT: 4.5}
    page.get_by_role("button", name="Forget all").click()
    visit.wait("document.querySelector('h1').textContent.startsWith('Rate a few')")
    assert page.evaluate("Object.keys(sessionStorage)") == []


def test_a_title_is_never_markup_and_nothing_comes_from_outside(visit, server):
    page = visit.open()
    assert HOSTILE in visit.rows()
    visit.rate(HOSTILE, "5 stars")
    page.locator(".why").first.wait_for()
    for view in VIEWS:
        visit.open(view)
    visit.open("item/356")
    assert page.locator("h1").text_content() == HOSTILE
    assert page.locator("img").count() == 0
    assert page.evaluate("window.harmed") is None
    assert all(one.url.startswith((visit.url, "blob:")) for one in visit.asked)
    assert page.locator("[style], [onclick], style, script:not([src])").count() == 0
    markup = server.get("/").text
    assert "style=" not in markup
    assert not re.search(r"\son\w+=", markup)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(
    "size", [(390, 844), (820, 1180), (1280, 900)], ids=["phone", "tablet", "desktop"]
)
def test_axe_finds_no_violation(browser, server, size, scheme):
    """In any view, nor while something is searched for, tried out, or goes wrong."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    viewport = {"width": size[0], "height": size[1]}
    with Visit(browser, server, viewport=viewport, color_scheme=scheme) as visit:
        page = visit.open()

        def look(state):
            page.wait_for_load_state("networkidle")
            assert page.evaluate("document.documentElement.scrollWidth") <= size[0], state
            found = axe.run(page, options=AXE).response
            told = [(one["id"], [node["html"][:200] for node in one["nodes"]])
                    for one in found["violations"]]  # fmt: skip
            assert told == [], state

        look("nothing rated")
        search_for(page, "Heat")
        look("searched")
        visit.rate("Heat (1995)", "4.5 stars")
        page.locator(".why").first.wait_for()
        for view in VIEWS:
            page.goto(f"{visit.url}/#/{view}")
            page.locator(f".view-{view.partition('/')[0] or 'list'} h1").wait_for()
            look(view)
        visit.open()
        page.get_by_role("button", name="What if Heat (1995) were").click()
        page.get_by_role("region", name="What if").wait_for()
        look("what if")
        page.route("**/v1/recommend", lambda route: route.abort())
        visit.rate("Pulp Fiction", "4 stars")
        page.get_by_role("alert").wait_for()
        look("alert")
        visit.complaints = [one for one in visit.complaints if "ERR_FAILED" not in one]


def test_a_key_is_asked_for_and_kept_out_of_addresses(browser, folder):
    file = folder / "keys"
    key = add_key(file, "visitor", ["read"])
    admin = add_key(file, "operator", ["read", "admin"])
    settings = settings_for(
        page_model(), folder, f"sqlite:///{folder / 'locked.sqlite3'}", key_file=file
    )
    with serving(settings) as server, Visit(browser, server) as visit:
        page = visit.open()
        assert page.locator("h1").text_content() == "This needs a key"
        page.get_by_label("Key of this service").fill(key)
        page.keyboard.press("Enter")
        assert len(visit.rows()) == 20  # without titles, by their ids
        assert page.locator(".title").first.text_content().startswith("Item ")
        page.get_by_role("link", name="Operator").click()
        page.get_by_label("Key of this service").fill(admin)
        page.keyboard.press("Enter")
        page.get_by_role("table", name="Table of versions").wait_for()
        assert page.get_by_label("Key of this service").count() == 0
        assert not [one.url for one in visit.asked if "ordbm_" in one.url]
        assert "ordbm_" not in page.url + page.evaluate("JSON.stringify({...sessionStorage})")
        assert page.evaluate("localStorage.length + document.cookie.length") == 0


SCALES = {
    "labels": (("poor", "fair", "good", "great"), "radio", "great"),
    "stars": ((1, 2, 3, 4, 5), "radio", "4 stars"),
    "ten": (tuple(range(1, 11)), "radio", "7 of 10"),
    "hundred": (tuple(range(1, 101)), "slider", None),
    "continuous": (None, "slider", None),
}


@pytest.mark.parametrize("kind", SCALES)
def test_every_scale_has_a_control_that_suits_it(browser, tmp_path, kind):
    levels, control, spoken = SCALES[kind]
    model = small_model(scale=levels) if levels else continuous_model()
    with serving(settings_for(model, tmp_path)) as server, Visit(browser, server) as visit:
        page = visit.open()
        title = visit.rows()[0]
        row = page.locator(".main-column .row").first
        if control == "radio":
            assert row.get_by_role("radio").count() == len(levels)
            row.get_by_role("radio", name=spoken, exact=True).click()
        else:
            row.get_by_role("slider").focus()
            page.keyboard.press("Home")
            row.get_by_role("button", name="Rate").click()
        visit.wait("title => document.querySelector('.main-column .title').textContent !== title",
                   title)  # fmt: skip
        (rating,) = visit.given().values()
        scale = server.get("/v1/model").json()["scale"]
        told = {"labels": "great", "stars": 4, "ten": 7}.get(kind, scale["range"][0])
        assert rating == pytest.approx(told)
        page.locator(".main-column .title").first.click()
        page.locator(".story-table").wait_for()
        page.get_by_role("link", name="Together").click()
        page.get_by_role("searchbox", name="Search titles they know").wait_for()


def test_ids_of_any_kind_lead_to_their_titles(browser, tmp_path):
    odd = ["a/b", 'c"d', "e f?g#h", "<b>i</b>", "%2F", "é", "..", "1"]
    for number, ids in enumerate(
        (odd + [f"k{n}" for n in range(22)], [2**60 + n for n in range(30)])
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        settings = settings_for(small_model(items=ids), folder)
        with serving(settings) as server, Visit(browser, server) as visit:
            page = visit.open()
            links = page.locator(".main-column .title")
            shown = visit.rows()
            for title in [one for one in shown if one[5:] in odd[:7]][:3] or shown[:1]:
                links.nth(visit.rows().index(title)).click()
                page.locator(".big-shape svg").first.wait_for()
                assert page.locator("h1").text_content() == title
                assert title.removeprefix("Item ") in map(str, ids)
                page.get_by_role("link", name="← For you").click()
            title = visit.rows()[0]
            visit.rate(title, "4 stars")
            page.locator(".why, .badge").first.wait_for()
            page.reload()
            assert title not in visit.rows()
            kept = page.evaluate("sessionStorage.getItem('ordbm you')")
            assert json.loads(kept)[0]["item"] == ids[list(map(str, ids)).index(title[5:])]


def test_what_goes_wrong_is_said_and_nothing_is_lost(browser, server):
    with Visit(browser, server, reduced_motion="no-preference") as visit:
        page = visit.open()
        visit.rows()
        page.route("**/v1/recommend", lambda route: route.abort())
        visit.rate("Pulp Fiction", "4 stars")
        page.get_by_role("alert").wait_for()
        assert "cannot be reached" in page.get_by_role("alert").text_content()
        page.unroute("**/v1/recommend")
        visit.rate(next(one for one in visit.rows() if "Pulp Fiction" not in one), "3 stars")
        page.locator(".why").first.wait_for()
        assert page.get_by_role("alert").count() == 0
        assert len(visit.given()) == 2
        visit.complaints = [one for one in visit.complaints if "ERR_FAILED" not in one]
