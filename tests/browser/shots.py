"""The pictures of the documentation: `python -m tests.browser.shots` fills a store and writes
docs/images/mission-control-*.png.

By hand, whenever the pages have changed: a picture is judged by eye. Each is kept below 200 kB.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from playwright.async_api import Browser, async_playwright

from tests.browser import chromium
from tests.browser.filling import Filled, fill
from tests.browser.shop import PART
from tests.browser.stage import LOOK, PATIENCE, Stage, staged
from tests.stopwatch import within
from windlass.core.states import State

ROOT: Final = Path(__file__).resolve().parent.parent.parent
IMAGES: Final = ROOT / "docs" / "images"
HIDE: Final = """(root) => {
  for (const each of document.querySelectorAll("pre")) {
    each.textContent = each.textContent.replaceAll(root, "/srv");
  }
}"""
"""Where the pictures were taken is nobody's business."""
MAX_BYTES: Final = 200_000
WIDE: Final = (1280, 860)
NARROW: Final = (320, 720)
PEOPLE: Final = ("ada", "grace", "edsger", "barbara", "donald", "radia", "tony", "frances")


def shots(filled: Filled) -> dict[str, tuple[str, str, tuple[int, int]]]:
    """By name: the page, the theme and the size of the window. First what lasts for seconds only:
    charts without a spike at their end, a part that is to be retried."""
    return {
        "overview-light": ("/", "light", WIDE),
        "overview-dark": ("/", "dark", WIDE),
        "parent": (f"/parents/{filled.parent}", "dark", WIDE),
        "queue": ("/queues/mail", "light", WIDE),
        "job": (f"/jobs/{filled.retrying}", "light", WIDE),
        "dead": ("/dead", "light", WIDE),
        "workers": ("/workers", "light", WIDE),
        "narrow": ("/", "dark", NARROW),
    }


async def scene(stage: Stage) -> Filled:
    """A shop on an ordinary day: mail goes out, some orders cannot be shipped, an import is half-way."""
    filled = await fill(stage, "grace@example.com")
    await stage.store.retire(filled.silent)
    send, ship, flaky = (stage.shop.app.named(name) for name in ("mail.send", "orders.ship", "mail.flaky"))
    await send.aenqueue_many([{"to": f"{name}@example.com", "subject": "Hello"} for name in PEOPLE * 40])
    dead = await ship.aenqueue_many([(f"A-10{number}",) for number in range(9)])
    await flaky.aenqueue_many([(f"{name}@example.com",) for name in PEOPLE])
    job = await stage.enqueue("imports.load", "customers.ndjson", 240 * PART)
    await stage.split(job.id)
    stage.go_on("customers.ndjson", 500)
    for id in dead:
        await stage.reached(id, State.DEAD)
    async with within(PATIENCE):
        while not all(worker.vitals and worker.vitals.slots for worker in await stage.store.workers()):  # noqa: ASYNC110
            await asyncio.sleep(LOOK)
    return filled


async def shoot(browser: Browser, address: str, name: str, path: str, **window: Any) -> Path:
    """One picture, of a page that has settled."""
    context = await browser.new_context(reduced_motion="reduce", locale="en-GB", **window)
    page = await context.new_page()
    await page.goto(address + path)
    await page.wait_for_function("document.fonts.status === 'loaded'")
    await page.evaluate(HIDE, str(ROOT))
    file = IMAGES / f"mission-control-{name}.png"
    await page.screenshot(path=file, animations="disabled")
    await context.close()
    return file


async def main() -> int:
    """Write them all; 1 where one is too large."""
    found = chromium.find()
    if found is None:
        sys.exit(f"no Chromium found: {chromium.HOW}")
    IMAGES.mkdir(exist_ok=True)
    files = []
    with tempfile.TemporaryDirectory() as folder:
        async with staged("sqlite", f"sqlite:///{folder}/jobs.db") as stage, async_playwright() as play:
            browser = await play.chromium.launch(executable_path=found, args=list(chromium.FLAGS))
            filled = await scene(stage)
            for name, (path, scheme, (width, height)) in shots(filled).items():
                window = {"viewport": {"width": width, "height": height}, "color_scheme": scheme}
                files.append(await shoot(browser, stage.address, name, path, **window))
            await browser.close()
    for file in files:
        print(f"{file.stat().st_size / 1000:6.0f} kB  {file.name}")  # noqa: T201 - this module is a command
    return int(any(file.stat().st_size > MAX_BYTES for file in files))


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
