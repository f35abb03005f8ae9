"""One walk through every page, looking at all that must hold on each: to open a page takes longer than to
look at it."""

from __future__ import annotations

import socket
from dataclasses import dataclass, field

from playwright.async_api import Browser, Page

from tests.browser.axe import LOOKS, violations
from tests.browser.filling import COOLING, QUIET, Filled
from tests.browser.stage import Stage
from tests.browser.watching import Trouble, watch

WIDTHS = (320, 768, 1920)
HEIGHT = 900
PLANTED = "img[src=x], [onerror], [onfocus], script:not([src])"
"""What hostile text would have become."""


@dataclass
class Found:
    """What was found on one page."""

    path: str
    status: int
    policy: str
    html: str
    headings: int
    text: str
    planted: int
    widths: dict[int, int] = field(default_factory=dict)
    """Of the window: how wide the page is in it."""
    light: list[str] = field(default_factory=list)
    dark: list[str] = field(default_factory=list)
    """What axe has found in either theme."""


@dataclass
class Survey:
    """What was found on all of them, and what went wrong meanwhile."""

    pages: list[Found]
    trouble: Trouble


def every_page(filled: Filled) -> list[str]:
    """The address of each page, with something on it."""
    return [
        *("/", "/queues", "/queues/mail", f"/queues/{COOLING}", "/jobs", "/parents", "/dead", "/waits"),
        *(f"/jobs/{id}" for id in (filled.sent, filled.retrying, filled.dead, filled.running)),
        *(f"/jobs/{id}" for id in (filled.waiting, filled.group)),
        *(f"/parents/{filled.parent}", f"/parents/{filled.parent}?parts=0"),
        *(
            "/bulk/new?verb=retry&q=state:dead",
            "/tasks",
            "/schedules",
            "/budgets",
            "/workers",
            "/operations",
            "/events",
        ),
    ]


def more_of_the_same(filled: Filled) -> list[str]:
    """Pages that look like one of the others, and need not be asked about in every size and theme."""
    return [
        *(f"/queues/{QUIET}", f"/jobs/{filled.scheduled}", f"/jobs/{filled.ready}", "/jobs?q=state:dead"),
        *(f"/workers?host={socket.gethostname()}", "/workers?worker=nobody"),
    ]


async def walk(browser: Browser, stage: Stage, filled: Filled) -> Survey:
    """Look at all of them."""
    trouble = Trouble()
    context = await browser.new_context(reduced_motion="reduce", color_scheme="light")
    page = await context.new_page()
    await watch(page, trouble)
    pages = [await _look(page, stage, path) for path in more_of_the_same(filled)]
    for path in every_page(filled):
        pages.append(await _look(page, stage, path))
        await _measure(page, pages[-1])
    await context.close()
    return Survey(pages, trouble)


async def _look(page: Page, stage: Stage, path: str) -> Found:
    answer = await page.goto(stage.address + path)
    assert answer is not None
    return Found(
        path=path,
        status=answer.status,
        policy=(await answer.all_headers()).get("content-security-policy", ""),
        html=await answer.text(),
        headings=await page.locator("main h1").count(),
        text=await page.locator("main").inner_text(),
        planted=await page.locator(PLANTED).count(),
    )


async def _measure(page: Page, found: Found) -> None:
    for width in WIDTHS:
        await page.set_viewport_size({"width": width, "height": HEIGHT})
        found.widths[width] = await page.evaluate("document.documentElement.scrollWidth")
    found.light = await violations(page)
    await page.emulate_media(color_scheme="dark")
    found.dark = await violations(page, LOOKS)
    await page.emulate_media(color_scheme="light")
