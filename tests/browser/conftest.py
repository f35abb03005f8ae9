"""A browser for the tests of this directory, a page in it that notes what goes wrong, and a stage on each
store.

One loop for all of them, so that one browser and one stage of each kind serve a whole test process. Tests do
not meet: each has jobs of its own. Without a Chromium the tests are left out, and the run says so.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, BrowserContext, Page, async_playwright

from tests import left_out
from tests.browser import chromium
from tests.browser.filling import Filled, fill
from tests.browser.stage import Stage, staged
from tests.browser.watching import Trouble, watch
from tests.postgres import Server

HERE = Path(__file__).parent
Opener = Callable[..., Coroutine[Any, Any, Page]]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave the tests of this directory out that need a browser, where there is none."""
    if chromium.find() is None:
        for item in items:
            if HERE in item.path.parents and "browser" in getattr(item, "fixturenames", ()):
                item.add_marker(pytest.mark.skip(reason=left_out.BROWSER.reason))


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    """A headless Chromium of this test process."""
    async with async_playwright() as play:
        started = await play.chromium.launch(executable_path=chromium.find(), args=list(chromium.FLAGS))
        yield started
        await started.close()


@pytest_asyncio.fixture(scope="session", loop_scope="session", params=["sqlite", "postgresql"])
async def stage(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Stage]:
    """A real engine on each store, with Mission Control in front of it."""
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path_factory.mktemp('browser')}/jobs.db"
    else:
        server: Server = request.getfixturevalue("pg_server")
        url = server.dsn(server.create_database(template=request.getfixturevalue("pg_template")))
    async with staged(request.param, url) as made:
        yield made


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def filled(stage: Stage) -> Filled:
    """Something of everything in the store, hostile text in every field."""
    return await fill(stage)


@pytest.fixture
def trouble() -> Trouble:
    """What went wrong in the pages of this test."""
    return Trouble()


@pytest_asyncio.fixture(loop_scope="session")
async def opened(browser: Browser, stage: Stage, trouble: Trouble) -> AsyncIterator[Opener]:
    """Opens a page of Mission Control, in a window of its own: `page = await opened("/queues")`.

    At the end of the test, an error in a console, a dialog or a refusal by the CSP fails it [M5]."""
    contexts: list[BrowserContext] = []

    async def open(path: str, *, width: int = 1280, height: int = 900, **options: Any) -> Page:
        context = await browser.new_context(viewport={"width": width, "height": height}, **options)
        contexts.append(context)
        page = await context.new_page()
        await watch(page, trouble)
        await page.goto(stage.address + path)
        return page

    yield open
    for context in contexts:
        await context.close()
    trouble.check()
