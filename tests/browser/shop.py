"""The app whose jobs are looked at: what a small shop would have, with handlers that wait until a test lets
them go on.

`windlass web tests.browser.shop:app` serves an app of the same tasks; those that run are of a `Shop` in the
test's own process, so that tests manage them by events and not by the clock.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from dataclasses import dataclass
from typing import Final, Literal

from windlass import Context, Part, Retry, Windlass
from windlass.chunks import Ranges
from windlass.settings import Settings

QUEUES: Final = {"mail": 4, "flaky": 4, "doomed": 4, "imports": 16, "slow": 4}
PART: Final = 100
"""Records of one part of an import."""
BATCH: Final = 25
TOLD: Final = "421 4.7.0 Try again later, closing connection"
DOOM: Final = "the customer has no address"
HOSTILE: Final = (
    """"><script>alert(1)</script><img src=x onerror=alert(2)>' onfocus=alert(3) autofocus {{7*7}} \u202e"""
)
"""Goes into every field that takes text [M5]."""


@dataclass
class Approval:
    """What a human answers: a field of each kind."""

    ok: bool
    size: Literal["small", "large"]
    amount: int = 3
    note: str = HOSTILE


class Shop:
    """One app, and the events that its handlers wait for."""

    def __init__(self) -> None:
        self.app: Final = Windlass()
        self.steps: Final = defaultdict[str, asyncio.Semaphore](lambda: asyncio.Semaphore(0))
        """Batches that may go on, by the file that is imported."""
        self.slow: Final = asyncio.Event()
        """Set: slow jobs end."""
        self.healed: Final[set[str]] = set()
        """Whose orders can be sent after all."""
        self._declare()

    def at(self, url: str) -> None:
        """Use this database, whatever the environment says."""
        # With a short lease it hears of cancels within a second, since it sends heartbeats as often.
        self.app.settings = Settings(database_url=url, lease=3.0, label_prefix="shop", label_version="1.4")

    def _declare(self) -> None:
        app = self.app

        @app.task(name="mail.send", queue="mail")
        async def send(to: str, subject: str = "") -> str:
            return f"sent to {to}"

        @app.task(name="mail.flaky", queue="flaky", retry=Retry(5, base="10m"))
        async def flaky(to: str) -> None:
            raise ConnectionError(TOLD)

        @app.task(name="orders.ship", queue="doomed", retry=Retry(1))
        async def ship(order: str) -> str:
            if order not in self.healed:
                raise ValueError(f"{DOOM}: {order}")
            return order

        @app.task(name="reports.build", queue="slow")
        async def build(month: str) -> None:
            await self.slow.wait()

        @app.task(name="answers.write", queue="slow", retry=Retry(2, base=0))
        async def write(ctx: Context, name: str) -> None:
            await ctx.emit("a first ")
            await ctx.emit("try")
            await self.steps[name].acquire()
            if ctx.attempt == 1:
                raise ConnectionError(TOLD)
            await ctx.emit(HOSTILE)
            await ctx.emit({"tokens": 3})
            await self.steps[name].acquire()

        @app.task(name="orders.approve", queue="slow")
        async def approve(ctx: Context, order: str) -> str:
            await ctx.emit(HOSTILE)
            await ctx.step(HOSTILE.replace("#", "")[:100], str, order)
            signal = HOSTILE.replace("/", "|")[:90]
            answer: Approval = await ctx.wait(signal, timeout="7d", type=Approval)
            return answer.note

        @app.task(name="orders.quote", queue="slow", budgets=["tenants"])
        async def quote(tenant: str) -> None: ...

        app.budget("tenants", rate="10/s", burst=10, key="tenant", cap="1000/day")

        @app.chunked(
            name="imports.load",
            queue="imports",
            split=Ranges(lambda file, count, fail: count, PART),
            parallel=4,
        )
        async def load(part: Part, file: str, count: int, fail: int | None = None) -> None:
            async for batch in part.batches(BATCH):
                await self.steps[file].acquire()
                if fail == part.index:
                    raise ValueError(f"line {batch.records[0]} is no JSON")
                await batch.done()

        @app.schedule("0 3 * * *", name="nightly", tz="Europe/Paris", kwargs={"to": HOSTILE})
        @app.task(name="mail.digest", queue="mail")
        async def digest(to: str) -> None:
            return None


app: Final = Shop().app
