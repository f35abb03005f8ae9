"""What an operator looks for: why a job waits or failed, where it is; by mouse, by keys, in either theme."""

import re

import pytest
from playwright.async_api import expect

from tests.browser.conftest import Opener
from tests.browser.filling import QUIET, Filled
from tests.browser.shop import TOLD
from tests.browser.stage import Stage

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.parametrize("stage", ["sqlite"], indirect=True),
]
DARK = "getComputedStyle(document.body).backgroundColor"


async def test_m4_a_retrying_job_shows_its_tries_and_on_hover_its_error(
    opened: Opener, stage: Stage, filled: Filled
) -> None:
    page = await opened("/jobs?q=state:retrying")
    badge = page.locator("tr", has_text=str(filled.retrying)).locator(".tip")
    await expect(badge).to_contain_text("retrying (1 try)")
    found = badge.locator("[role=tooltip]")
    await expect(found).to_be_hidden()
    await badge.hover()
    await expect(found).to_be_visible()
    await expect(found).to_contain_text(TOLD)
    await page.mouse.move(0, 0)
    await expect(found).to_be_hidden()
    await badge.focus()  # those without a pointer are told, too
    await expect(found).to_be_visible()


async def test_m4_a_waiting_job_says_why_it_waits(opened: Opener, stage: Stage, filled: Filled) -> None:
    page = await opened(f"/jobs/{filled.ready}")
    await expect(page.locator("main")).to_contain_text(f"queue {QUIET} is paused")
    await page.goto(f"{stage.address}/jobs/{filled.scheduled}")
    await expect(page.locator("main")).to_contain_text("due in")
    await page.goto(f"{stage.address}/queues/cooling")
    await expect(page.locator("main")).to_contain_text("throttled, resumes in")


async def test_search_finds_by_task_state_and_argument(opened: Opener, stage: Stage, filled: Filled) -> None:
    page = await opened("/")
    rows = page.locator("main table[data-rows] > tbody > tr")
    for words, id in (
        ("task:mail.flaky state:retrying", filled.retrying),
        ("state:dead task:orders.ship", filled.dead),
        ("later@example.com", filled.scheduled),
        (f"queue:{QUIET}", filled.ready),
        ("tag:eu", filled.sent),
    ):
        await page.locator("#search").fill(words)
        await page.keyboard.press("Enter")
        await expect(rows.filter(has_text=str(id))).to_have_count(1)
        assert await page.locator("#search").input_value() == words  # and the view is a URL


async def test_the_theme_follows_the_system_and_then_the_reader(
    opened: Opener, stage: Stage, filled: Filled
) -> None:
    page = await opened("/", color_scheme="dark")
    dark = await page.evaluate(DARK)
    await page.emulate_media(color_scheme="light")
    light = await page.evaluate(DARK)
    assert dark != light
    await page.locator("#theme").click()
    assert await page.evaluate(DARK) == dark
    await page.goto(f"{stage.address}/queues")  # it is remembered
    assert await page.evaluate(DARK) == dark
    await page.keyboard.press("t")
    assert await page.evaluate(DARK) == light


@pytest.mark.slow
async def test_everything_is_reached_by_keys_alone(opened: Opener, stage: Stage, filled: Filled) -> None:
    page = await opened("/")
    await page.keyboard.press("?")
    await expect(page.locator("#help")).to_be_visible()
    await page.keyboard.press("Escape")
    await expect(page.locator("#help")).to_be_hidden()
    for key, path in (
        *(("q", "/queues"), ("j", "/jobs"), ("p", "/parents"), ("d", "/dead"), ("t", "/tasks")),
        *(("s", "/schedules"), ("b", "/budgets"), ("w", "/workers"), ("m", "/operations"), ("e", "/events")),
        ("o", "/"),
    ):
        await page.keyboard.press("g")
        await page.keyboard.press(key)
        await page.wait_for_url(stage.address + path)
    await page.keyboard.press("/")
    await expect(page.locator("#search")).to_be_focused()
    await page.keyboard.type("state:dead j")  # letters are letters while somebody types
    assert await page.locator("#search").input_value() == "state:dead j"
    await page.keyboard.press("Backspace")
    await page.keyboard.press("Backspace")
    await page.keyboard.press("Enter")
    await page.wait_for_url(re.compile("state"))
    await page.keyboard.press("j")
    await expect(page.locator("tr[data-current]")).to_have_count(1)
    first = await page.locator("tr[data-current]").inner_text()
    await page.keyboard.press("j")
    await page.keyboard.press("k")
    assert await page.locator("tr[data-current]").inner_text() == first
    await page.keyboard.press("Enter")
    await page.wait_for_url(re.compile(r"/jobs/\d+$"))


async def test_the_first_tab_skips_to_the_content(opened: Opener, stage: Stage, filled: Filled) -> None:
    page = await opened("/queues")
    await page.keyboard.press("Tab")
    await expect(page.locator("a.skip")).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(page.locator("main")).to_be_focused()
