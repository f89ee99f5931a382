"""README and docs keep their word: what they show runs, and prints what they show."""

import ast
import contextlib
import importlib
import re

import numpy as np
import pytest

import ordbm
from docs_pages import NEAR, PAGES, ROOT, Block, Printed, alike, blocks, printed_by, with_times_of

DOCS = ROOT / "docs"
WITH_CODE = [page for page in PAGES if any(blocks(page.read_text(encoding="utf-8")))]


def name_of(page):
    return page.relative_to(ROOT).as_posix()


@pytest.mark.slow
@pytest.mark.parametrize("page", WITH_CODE, ids=name_of)
def test_what_a_page_shows_runs_and_prints_what_it_shows(page):
    wrong, near = [], []
    for printed in printed_by(page):
        block = printed.block
        if block.output is not None and not alike(block.output, printed.text):
            wrong.append(f"{page.name}:{block.line} prints\n{printed.text}")
        if not printed.is_robust:
            near.append(f"{page.name}:{block.line}: neighbours {printed.gap:.0e} apart")
    assert not wrong, "\n".join(wrong)
    assert not near, "\n".join(near)


def test_a_block_is_left_out_for_a_stated_reason_only():
    for page in WITH_CODE:
        for block in blocks(page.read_text(encoding="utf-8")):
            if block.remark.startswith("not run"):
                assert re.fullmatch(r"not run: \S.{10,}", block.remark), name_of(page)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_block_of_code_is_one_that_is_run(page):
    kinds = re.findall(r"^ *```(\S.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    unknown = {kind for kind in kinds if not kind.startswith("{")} - {"python", "console", "text"}
    assert not unknown


def test_outputs_differ_by_words_and_by_more_than_rounding():
    assert alike("log-loss 1.687, 20 epochs in 7.6 s ███", "log-loss  1.689, 20 epochs in 9 s █")
    assert not alike("log-loss 1.687", "log-loss 1.787")
    assert not alike("20 epochs", "19 epochs")
    assert alike("+0.00 for this one", "-0.00 for this one")
    assert not alike("+0.05 for this one", "-0.05 for this one")
    assert with_times_of("in 7.6 s", "done in 81 s") == "done in 7.6 s"
    assert not alike("Toy Story 4.10", "Alien 4.10")


def test_a_list_written_without_near_ties_has_none_on_another_processor():
    differ = 2e-3  # gaps, from processor to processor
    block = Block("python", "", 1, "a list", (0, 0), "")
    assert Printed(block, "", NEAR - differ).is_robust
    assert not Printed(block, "", differ).is_robust
    assert Printed(block._replace(output=None), "", 0.0).is_robust  # nothing is shown of it


def test_dependence_is_shown_against_the_marginals_of_the_joint_itself():
    """Single predictions have other unseen ratings in the machine: their product differs anyway."""
    multiplied = [
        ast.unparse(node.value)
        for page in WITH_CODE
        for block in blocks(page.read_text(encoding="utf-8"))
        if block.kind == "python" and "predict_joint" in block.code
        for node in ast.walk(ast.parse(block.code))
        if isinstance(node, ast.Attribute) and node.attr == "prod"
    ]
    assert multiplied
    assert [code for code in multiplied if ".marginals(" not in code] == []


def test_how_the_paper_predicts_is_stated_and_is_the_mode_of_mean_field():
    """A machine of the paper's preset predicts exact means: the page says how to get the other."""
    text = (DOCS / "how-to" / "settings.md").read_text(encoding="utf-8")
    (call,) = re.findall(r"The paper predicts\s[^`]*`(model\.predict\([^`]*\))`", text)
    rng = np.random.default_rng(0)
    users, items = rng.integers(9, size=(2, 60))
    ratings = ordbm.Ratings(users, items, rng.integers(1, 6, 60), scale=[1, 2, 3, 4, 5])
    model = ordbm.OrdinalBM(preset="paper", hidden=2, epochs=1).fit(ratings)
    found = eval(call, {"model": model, "users": users, "items": items})
    proba = model.predict_proba(users, items, method="mean_field")
    np.testing.assert_array_equal(found, ratings.scale.values[proba.argmax(axis=1)])
    assert (found != model.predict(users, items)).any()


def test_links_between_files_lead_somewhere():
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{name_of(page)}: {target}"


def test_every_public_name_has_a_place_in_the_reference():
    reference = (DOCS / "reference" / "python.md").read_text(encoding="utf-8")
    described = set(re.findall(r"auto\w+:: (?:ordbm\.)?(\S+)", reference))
    assert set(ordbm.__all__) - {"__version__"} <= described


@pytest.mark.parametrize("name", ["design.md", "paper-map.md", "mathematics.md"])
def test_modules_and_names_of_the_code_exist(name):
    rooms = {path.stem for path in (ROOT / "src" / "ordbm").iterdir()}
    text = (DOCS / name).read_text(encoding="utf-8")
    named = re.findall(r"`([a-z_]+(?:\.\w+)+)", text)
    missing = {dotted for dotted in named if dotted.split(".")[0] in rooms and not exists(dotted)}
    roots = ROOT, ROOT / "src" / "ordbm"
    paths = re.findall(r"`(\w+/\w+\.py)`", text)
    missing |= {path for path in paths if not any((root / path).exists() for root in roots)}
    assert not missing


def exists(dotted):
    """Whether `model.machine.Side.n_hidden` is a module, or a name or field in one."""
    words = dotted.split(".")
    for cut in range(len(words), 0, -1):
        with contextlib.suppress(ModuleNotFoundError):
            found = importlib.import_module(".".join(["ordbm", *words[:cut]]))
            break
    else:
        return False
    for word in words[cut:]:
        if not hasattr(found, word):
            return word in getattr(found, "__annotations__", {})
        found = getattr(found, word)
    return True


def test_the_design_has_every_room_of_the_house():
    text = (DOCS / "design.md").read_text(encoding="utf-8")
    for path in (ROOT / "src" / "ordbm").iterdir():
        if (
            not path.name.startswith("__")
            and path.suffix in ("", ".py")
            and path.stem != "templates"
        ):
            room = f"{path.name}/" if path.is_dir() else path.stem
            assert f"`{room}`" in text, room


def test_the_tests_that_pages_name_exist():
    for page in PAGES:
        named = re.findall(r"`(?:tests/)?(test_\w+)(?:\.py)?`", page.read_text(encoding="utf-8"))
        missing = {name for name in named if not (ROOT / "tests" / f"{name}.py").exists()}
        assert not missing, name_of(page)
