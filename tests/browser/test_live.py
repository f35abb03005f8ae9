"""Pages stay up to date by themselves: without a reload, without a jump, and not while nobody looks."""

import asyncio

import pytest
from playwright.async_api import Request, Route, expect

from tests.browser.conftest import Opener
from tests.browser.filling import Filled
from tests.browser.shop import BATCH, HOSTILE, PART
from tests.browser.stage import Stage
from tests.browser.watching import Trouble
from tests.web.kit import visiting
from windlass import Windlass

pytestmark = pytest.mark.asyncio(loop_scope="session")
ON_SQLITE = pytest.mark.parametrize("stage", ["sqlite"], indirect=True)
FILE = "live.ndjson"
PARTS = 4
BATCHES = PARTS * PART // BATCH
LATE = 15_000
"""Milliseconds by which a page must have noticed."""
FRESH = """() => new Promise((done) =>
  document.addEventListener("windlass:fresh", () => done(true), { once: true }))"""
BOXES = """() => [...document.querySelectorAll("header, main, main > *, main > * > *, nav")].map((each) => {
  const { x, y, width, height } = each.getBoundingClientRect();
  return [each.tagName, each.id, each.className, x, y, width, height].join(" ");
})"""
HIDE = """(hidden) => {
  Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
  document.dispatchEvent(new Event("visibilitychange"));
}"""


@pytest.mark.slow
async def test_a_running_import_is_followed_without_a_reload(opened: Opener, stage: Stage) -> None:
    """[P10] Percent and strip change as parts save what they have done, in the page that was opened once."""
    job = await stage.enqueue("imports.load", FILE, PARTS * PART)
    await stage.split(job.id)
    page = await opened(f"/parents/{job.id}")
    await page.evaluate("window.same = true")
    strip = page.locator(".strip [role=img]")
    before = await strip.inner_html()
    done = page.locator("#progress-title")
    await expect(done).to_have_text("0 % done")
    stage.go_on(FILE, BATCHES // 2)
    await expect(done).to_have_text("50 % done", timeout=LATE)
    stage.go_on(FILE, BATCHES // 2)
    await expect(done).to_have_text("100 % done", timeout=LATE)
    await expect(page.locator("#head .badge").first).to_have_text("succeeded", timeout=LATE)
    assert await strip.inner_html() != before
    assert await page.evaluate("window.same")


async def test_w3_what_a_job_emits_is_shown_as_it_comes(opened: Opener, stage: Stage) -> None:
    """As text, whatever it is, with the attempts marked; and again for whoever comes later."""
    job = await stage.enqueue("answers.write", f"answer {stage.kind}")
    page = await opened(f"/jobs/{job.id}")
    shown = page.locator("#stream pre")
    await expect(shown).to_have_text("a first try", timeout=LATE)
    stage.go_on(f"answer {stage.kind}", 2)
    hostile = HOSTILE.replace("\u202e", "\\u202e")
    whole = f'a first tryrun 2, attempt 2a first try{hostile}{{"tokens":3}}'
    await expect(shown).to_have_text(whole, timeout=LATE)
    stage.go_on(f"answer {stage.kind}", 1)
    await expect(page.locator("#stream .told")).to_have_text("ended", timeout=LATE)
    later = await opened(f"/jobs/{job.id}")
    await expect(later.locator("#stream pre")).to_have_text(whole, timeout=LATE)
    await expect(later.locator("#stream .told")).to_have_text("ended", timeout=LATE)


@pytest.mark.slow
@ON_SQLITE
async def test_nothing_jumps_when_a_page_is_refreshed(opened: Opener, stage: Stage, filled: Filled) -> None:
    """Blocks keep their places, and whoever types goes on typing. Several pages at once: it takes time. A
    page may grow when there is more to tell; a refresh that jumps does so each time."""

    async def check(path: str) -> None:
        page = await opened(path)
        await page.locator("#search").fill("half a wor")
        seen = []
        for _ in range(4):
            await page.evaluate(FRESH)
            seen.append(await page.evaluate(BOXES))
            if seen[-1] in seen[:-1]:
                break
        assert seen[-1] in seen[:-1], path
        await page.keyboard.press("End")
        await page.keyboard.type("d")
        assert await page.evaluate("document.activeElement.value") == "half a word", path

    paths = ("/", "/queues", "/queues/mail", "/jobs", f"/jobs/{filled.retrying}", "/workers", "/dead")
    await asyncio.gather(*map(check, paths))


@ON_SQLITE
async def test_a_hidden_page_asks_for_nothing(opened: Opener, stage: Stage, filled: Filled) -> None:
    """Its clock is ours: an hour passes in no time."""
    page = await opened("/queues")
    asked: list[str] = []
    await page.clock.install()
    await page.reload()
    await page.evaluate(HIDE, True)

    def note(request: Request) -> None:
        if "/static/" not in request.url:  # the browser fetches the page's icon when it likes
            asked.append(request.url)

    page.on("request", note)
    await page.clock.fast_forward(3_600_000)
    assert asked == []
    async with page.expect_request(lambda request: request.url.endswith("/queues")):
        await page.evaluate(HIDE, False)


@ON_SQLITE
async def test_it_can_be_held_still_and_goes_on(opened: Opener, stage: Stage, filled: Filled) -> None:
    page = await opened("/queues")
    await page.locator("#live").click()
    await expect(page.locator("#pulse")).to_have_attribute("data-state", "paused")
    await page.reload()
    await expect(page.locator("#pulse")).to_have_attribute("data-state", "paused")
    await page.locator("#live").click()
    await page.evaluate(FRESH)
    await expect(page.locator("#pulse")).to_have_attribute("data-state", "live")


@pytest.mark.slow
@ON_SQLITE
async def test_a_server_that_is_gone_is_said_and_forgiven(
    opened: Opener, stage: Stage, filled: Filled, trouble: Trouble
) -> None:
    """The page says since when it is stale, and catches up when the server answers again."""
    page = await opened("/queues")

    async def refuse(route: Route) -> None:
        await route.fulfill(status=503, body="")

    await page.route("**/queues", refuse)
    await expect(page.locator("#pulse")).to_have_attribute("data-state", "stale", timeout=LATE)
    await page.unroute("**/queues")
    await expect(page.locator("#pulse")).to_have_attribute("data-state", "live", timeout=LATE)
    assert trouble.found
    assert all("503" in each for each in trouble.found)
    trouble.found.clear()


@pytest.mark.slow
@ON_SQLITE
async def test_a_page_that_could_not_be_shown_comes_back_by_itself(
    opened: Opener, stage: Stage, filled: Filled, trouble: Trouble
) -> None:
    """Opened while the store was away, it says so, is not "live", and shows itself when the store is back."""
    away = Windlass("postgresql://nobody@127.0.0.1:1/nowhere")
    async with visiting(away) as visitor:
        answer = await visitor.get("/queues")
    await away.aclose()
    page = await opened("/events")

    async def refuse(route: Route) -> None:
        await route.fulfill(status=503, body=answer.text, content_type="text/html")

    await page.route("**/queues", refuse)
    await page.goto(f"{stage.address}/queues")
    await expect(page.locator("#pulse")).to_have_attribute("data-state", "stale")
    await expect(page.get_by_role("link", name="Try again")).to_be_visible()
    await page.unroute("**/queues")
    await expect(page.locator("h1")).to_have_text("Queues", timeout=LATE)
    await expect(page.locator("#pulse")).to_have_attribute("data-state", "live")
    assert all("503" in each for each in trouble.found)
    trouble.found.clear()
