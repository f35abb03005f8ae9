"""What must hold on every page: no error, no sideways scrolling, nothing that a screen reader stumbles over,
and hostile text shown as text."""

import pytest
import pytest_asyncio
from playwright.async_api import Browser

from tests.browser.axe import violations
from tests.browser.conftest import Opener
from tests.browser.filling import Filled
from tests.browser.stage import Stage
from tests.browser.survey import Survey, walk

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.parametrize("stage", ["sqlite"], indirect=True),  # the pages do not know the store
]
SCRIPT = "<script>alert(1)</script>"


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def survey(browser: Browser, stage: Stage, filled: Filled) -> Survey:
    """Every page, looked at once for all of these tests."""
    return await walk(browser, stage, filled)


async def test_every_page_is_there_and_nothing_goes_wrong_on_it(survey: Survey, stage: Stage) -> None:
    """No error in a console, no dialog, nothing that the CSP had to refuse [M5]."""
    survey.trouble.check()
    for page in survey.pages:
        assert (page.status, page.headings) == (200, 1), page.path


async def test_axe_finds_nothing_in_either_theme(survey: Survey, stage: Stage) -> None:
    """WCAG 2.2 AA and good practice."""
    found = [each for page in survey.pages for each in (*page.light, *page.dark)]
    assert not found, "\n".join(found)


async def test_no_page_scrolls_sideways(survey: Survey, stage: Stage) -> None:
    """From 320 to 1920 pixels."""
    wide = {
        page.path: (width, window)
        for page in survey.pages
        for window, width in page.widths.items()
        if width > window
    }
    assert not wide


async def test_hostile_text_is_shown_as_text(survey: Survey, stage: Stage, filled: Filled) -> None:
    """[M5] Each of these jobs was made with hostile text; it is on their pages, and no tag came of it."""
    shown = {page.path for page in survey.pages if SCRIPT in page.text}
    jobs = (filled.sent, filled.retrying, filled.dead, filled.scheduled, filled.ready, filled.running)
    more = (filled.waiting, filled.group)
    assert {f"/jobs/{id}" for id in (*jobs, *more)} | {"/workers", "/events", "/dead", "/budgets"} <= shown
    for page in survey.pages:
        assert page.planted == 0, page.path
        assert SCRIPT not in page.html, page.path


async def test_every_answer_carries_the_strict_policy(survey: Survey, stage: Stage) -> None:
    """[M5] No inline script or style, and none that anybody could put in."""
    for page in survey.pages:
        assert "default-src 'none'" in page.policy, page.path
        assert "unsafe" not in page.policy, page.path
        assert " style=" not in page.html, page.path
        assert "<style" not in page.html, page.path


async def test_the_help_and_a_question_are_accessible_too(
    opened: Opener, stage: Stage, filled: Filled
) -> None:
    page = await opened(f"/jobs/{filled.running}", reduced_motion="reduce")
    await page.keyboard.press("?")
    await page.locator("#help").wait_for(state="visible")
    assert await violations(page) == []
    await page.keyboard.press("Escape")
    await page.get_by_role("button", name="Cancel…").click()
    await page.get_by_role("button", name="Cancel the job").wait_for(state="visible")
    assert await violations(page) == []
