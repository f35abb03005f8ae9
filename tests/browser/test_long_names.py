"""Tables with names as long as they may be: nothing is cut off, on a wide screen or a narrow one [M3]."""

import pytest
from playwright.async_api import Browser

from tests.conformance.kit import Rig
from tests.web.kit import rigged, served
from windlass import Windlass
from windlass.core.states import Kind
from windlass.store.records import Busy, Failure, NewSchedule, Report, Vitals

pytestmark = pytest.mark.asyncio(loop_scope="session")
TASK = "billing.invoices.send_reminder_to_customers_with_overdue_payment"
QUEUE = "notifications-transactional-email-eu-west-1-high-throughput-lane"
SCHEDULE = "nightly-reconciliation-of-the-payment-ledger-with-the-bank-files"
ERROR = Failure("requests.exceptions.ConnectTimeoutWhileTalkingToUpstream", "url: /" + "a1b2" * 40, "")
PAGES = ("/", "/jobs", "/dead", "/schedules", "/queues", "/tasks", "/budgets", "/workers", "/events")
WIDTHS = (320, 768, 1024, 1280, 1440, 1920)
CUT = """() => [...document.querySelectorAll(".table")]
  .filter((each) => each.checkVisibility() && each.scrollWidth > each.clientWidth)
  .map((each) => each.getAttribute("aria-label"))"""


async def fill(rig: Rig) -> None:
    """Long names wherever there is room for one."""
    worker = await rig.worker("default", QUEUE)
    ended = (Kind.DEAD, Kind.RETRY, Kind.SUCCEEDED)
    ids = await rig.add(*[TASK] * len(ended), queue=QUEUE, tags=("t" * 40, "u" * 40), max_attempts=25)
    for id, kind in zip(ids, ended, strict=True):
        error = None if kind is Kind.SUCCEEDED else ERROR
        await rig.finish(worker, await rig.run(worker, id, QUEUE), kind, delay=60_000, error=error)
    now = await rig.store.now()
    made = NewSchedule(
        name=SCHEDULE, cron="*/15 8-18 * * mon-fri", task=TASK, queue=QUEUE,
        tz="America/Argentina/ComodRivadavia",
    )  # fmt: skip
    await rig.store.seed_schedule(made, now + 600)
    await rig.store.seed_schedule(
        NewSchedule(name="wrong", cron="x", task=TASK), None, "cron: 'x' is no time"
    )
    await rig.store.set_budget(SCHEDULE, {"rate": 5.0, "burst": 10})
    busy = (Busy(ids[0], TASK, QUEUE, now - 600),)
    vitals = Vitals(cpu=0.5, memory=2**28, running=1, slots=4, lag=0.01, jobs=busy)
    await rig.store.report(worker, 1, Report(vitals=vitals))


@pytest.mark.slow
async def test_no_table_is_cut_off(browser: Browser) -> None:
    cut: list[tuple[int, str, list[str]]] = []
    with Windlass("sqlite:///:memory:") as app:
        async with rigged(app) as rig:
            await fill(rig)
        with served(app) as address:
            for width in WIDTHS:
                page = await browser.new_page(viewport={"width": width, "height": 900})
                for path in PAGES:
                    await page.goto(address + path)
                    assert await page.locator("main h1").count() == 1
                    if found := await page.evaluate(CUT):
                        cut.append((width, path, found))
                await page.close()
    assert not cut
