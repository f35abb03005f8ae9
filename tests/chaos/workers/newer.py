"""The next version of the app under test: it knows one task more."""

from tests.chaos.workers.jobs import QUEUE, app, run
from windlass.running.context import Context

__all__ = ["app"]


@app.task(name="fresh", queue=QUEUE)
async def fresh(ctx: Context) -> None:
    """What the old version has never heard of."""
    with run(ctx) as written:
        written.effect()
