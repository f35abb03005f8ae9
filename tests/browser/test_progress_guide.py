"""docs/guides/progress.md in a browser: its script follows a job of its program to the end, by asking and by
a stream."""

import asyncio
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import pytest_asyncio
import uvicorn
from fastapi.responses import HTMLResponse
from playwright.async_api import Browser, expect

from tests.browser.watching import Trouble, watch
from tests.docs.pages import ROOT, blocks

pytestmark = pytest.mark.asyncio(loop_scope="session")
PAGE = ROOT / "docs" / "guides" / "progress.md"
ROWS = 150
LATE = 20_000


@pytest_asyncio.fixture(loop_scope="session")
async def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[str, Any]]:
    """The page's program on a server of its own, with its HTML at /, and a worker beside it."""
    monkeypatch.setenv("WINDLASS_DATABASE_URL", f"sqlite:///{tmp_path}/jobs.db")
    exports = ModuleType("exports")
    for block in blocks(PAGE, "python"):
        if block.text.startswith("# exports.py"):
            exec(compile(block.text, f"{PAGE.name}, line {block.line}", "exec"), vars(exports))  # noqa: S102
    html = "".join(block.text for block in blocks(PAGE, "html"))
    head = "<!doctype html><title>Export</title><link rel=icon href=data:,>"
    exports.api.get("/", response_class=HTMLResponse)(lambda: head + html)
    server = uvicorn.Server(uvicorn.Config(exports.api, log_config=None, timeout_graceful_shutdown=1))
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        serving = asyncio.create_task(server.serve([listening]))
        async with exports.app, exports.app.worker(queues={"exports": 2}):
            yield f"http://127.0.0.1:{listening.getsockname()[1]}", exports
            server.should_exit = True
            await serving


@pytest.mark.slow
@pytest.mark.parametrize("call", ["poll", "follow"])
async def test_the_script_follows_a_job_to_its_end(
    call: str, site: tuple[str, Any], browser: Browser, trouble: Trouble
) -> None:
    address, exports = site
    context = await browser.new_context()
    page = await context.new_page()
    await watch(page, trouble)
    await page.goto(address)
    job = await exports.export.aenqueue(ROWS)
    await page.evaluate(f"void {call}('{job}')")
    bar, text = page.locator("#bar"), page.locator("#text")
    await page.wait_for_function(f"bar.max === {ROWS} && bar.value > 0 && bar.value < {ROWS}", timeout=LATE)
    await expect(text).to_have_text("/files/export.csv", timeout=LATE)
    assert await bar.evaluate("each => each.value") == ROWS
    await context.close()
    trouble.check()
