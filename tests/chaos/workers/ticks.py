"""The app of `flow_jobs` with a schedule: each fire writes down for which time it is."""

from tests.chaos.workers.flow_jobs import app
from tests.chaos.workers.jobs import QUEUE, run
from windlass import Context

__all__ = ["app"]
TICK = "tick"


@app.schedule("* * * * *", overlap="queue")
@app.task(name=TICK, queue=QUEUE)
async def tick(ctx: Context) -> None:
    """Fired by the clock."""
    with run(ctx) as written:
        written.effect(ctx.headers["windlass-scheduled-for"])
