"""What an operator does in the pages, and what the engine makes of it; on each store."""

import pytest
from playwright.async_api import expect

from tests.browser.conftest import Opener
from tests.browser.stage import Stage
from windlass.core.states import State

pytestmark = pytest.mark.asyncio(loop_scope="session")
LATE = 15_000


async def test_k2_a_queue_is_paused_and_resumed(opened: Opener, stage: Stage) -> None:
    page = await opened("/queues/mail")
    await page.get_by_role("button", name="Pause", exact=True).click()
    await expect(page.locator("main")).to_contain_text("paused")
    [queue] = [queue for queue in await stage.store.queues() if queue.name == "mail"]
    assert queue.paused
    held = await stage.enqueue("mail.send", "paused@example.com")
    await page.goto(f"{stage.address}/jobs/{held.id}")
    await expect(page.locator("main")).to_contain_text("queue mail is paused")
    await page.goto(f"{stage.address}/queues/mail")
    await page.get_by_role("button", name="Resume", exact=True).click()
    await stage.reached(held.id, State.SUCCEEDED)


async def test_o6_dead_jobs_are_retried_by_filter_after_a_look(opened: Opener, stage: Stage) -> None:
    """The preview says how many there are; then they run, and the page says what became of them."""
    orders = [f"order-{number}" for number in range(7)]
    jobs = [
        await stage.shop.app.named("orders.ship").using(tags=["spring"]).aenqueue(order) for order in orders
    ]
    for job in jobs:
        await stage.reached(job.id, State.DEAD)
    stage.shop.healed.update(orders)
    page = await opened("/jobs?q=state:dead+tag:spring")
    await page.get_by_role("link", name="retry…", exact=True).click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("Retry 7 jobs?")
    assert [job.state for job in [await stage.store.job(job.id) for job in jobs] if job] == [State.DEAD] * 7
    await page.get_by_role("button", name="Retry 7 jobs").click()
    bulk = page.locator("#bulk")
    await expect(bulk).to_contain_text("7 of 7 jobs", timeout=LATE)
    await expect(bulk.get_by_role("heading", name="Done")).to_be_visible(timeout=LATE)
    await expect(bulk.locator("dt", has_text="retried").locator("+ dd")).to_have_text("7")
    for job in jobs:
        await stage.reached(job.id, State.SUCCEEDED)


@pytest.mark.slow
async def test_o5_a_running_job_is_cancelled_once_somebody_is_sure(opened: Opener, stage: Stage) -> None:
    job = await stage.enqueue("reports.build", "2026-01")
    await stage.reached(job.id, State.RUNNING)
    page = await opened(f"/jobs/{job.id}")
    await page.get_by_role("button", name="Cancel…", exact=True).click()
    await page.get_by_role("button", name="Cancel the job").click()
    await stage.reached(job.id, State.CANCELLED)
    await expect(page.locator("#head .badge").first).to_contain_text("cancelled", timeout=LATE)
