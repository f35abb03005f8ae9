"""How far a job is, for those who hold its handle [P6] [P10]."""

from datetime import UTC, datetime, timedelta

import pytest

from windlass import Context, Dead, JobProgress, Part, Ranges, Retry, Windlass
from windlass.errors import JobNotFound


async def test_p6_progress_is_told_while_a_job_waits_and_after_it_has_succeeded(any_app: Windlass) -> None:
    @any_app.task(name="imports.load")
    async def load(ctx: Context, fail: bool) -> str:
        for row in range(1, 8):
            await ctx.aprogress(row, 10)
        if fail:
            raise Dead("enough")
        return "loaded"

    job = await load.aenqueue(False)
    assert await job.aprogress() == JobProgress() == JobProgress(0, None, None)
    assert (await job.aprogress()).fraction is None
    await any_app.arun_until_idle()
    ended = await job.aprogress()
    # The last one was too young to be written at once: it is written when the handler returns.
    assert (ended.done, ended.total, ended.fraction) == (7, 10, 0.7)
    assert ended.at is not None
    assert ended.at.tzinfo is UTC
    assert abs(ended.at - datetime.now(UTC)) < timedelta(minutes=5)
    assert await job.aresult() == "loaded"

    dead = await load.aenqueue(True)
    await any_app.arun_until_idle()
    assert (await dead.aprogress()).total == 10


async def test_p6_progress_of_a_job_that_is_tried_again(any_app: Windlass) -> None:
    @any_app.task(name="imports.again", retry=Retry(2, base=0.001, jitter=0))
    async def again(ctx: Context) -> None:
        if ctx.attempt == 1:
            await ctx.asave({"row": 4}, done=4, total=9)
            raise ConnectionError("gone")

    job = await again.aenqueue()
    await any_app.arun_until_idle(wait=5)
    assert ((await job.aprogress()).done, (await job.aprogress()).total) == (4, 9)


async def test_p10_progress_of_a_chunked_job_is_that_of_its_parts(any_app: Windlass) -> None:
    @any_app.chunked(split=Ranges(lambda n: (0, n), size=10), name="imports.ranges")
    async def ranges(part: Part, n: int) -> None:
        async for batch in part.batches(5):
            await batch.done()

    job = await ranges.aenqueue(25)
    assert await job.aprogress() == JobProgress()
    await any_app.arun_until_idle()
    assert await job.aprogress() == JobProgress(25, 25)
    for part in await any_app.parent(job.id).aparts():
        assert part.job is not None
        told = await any_app.job(part.job).aprogress()
        assert (told.done, told.total) == (part.size, part.size)


def test_progress_from_plain_code(app: Windlass) -> None:
    job = app.enqueue("mail.send", 1)
    assert job.progress().done == 0
    job.delete()
    with pytest.raises(JobNotFound):
        job.progress()
