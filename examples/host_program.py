"""A program that runs its own jobs, and manages its queues from code.

python -m examples.host_program         # docs/guides/teams/host-programs.md is about it
"""

import asyncio

from examples.stage import place
from windlass import Windlass

app = Windlass()


@app.task(queue="mail")
async def send(to: str) -> None:
    """An `async def` task shares the program's event loop."""
    await asyncio.sleep(0.01)


@app.task(queue="reports")
def report(month: str) -> str:
    """A plain function runs in a thread."""
    return f"report of {month}"


async def declare() -> None:
    """At every start. What is stored wins, so a change that an operator made stays."""
    await app.queue("mail").aensure(concurrency=4, max_depth=1000)
    await app.queue("reports").aensure(concurrency=1)


async def main() -> None:
    """Run jobs beside whatever else the program does."""
    async with app:
        await app.amigrate()
        await app.queue("mail").aset(concurrency=2)  # an operator was here before
        await declare()
        for queue in await app.aqueues():
            print(f"declared  {queue.name}: {queue.concurrency} at a time, depth {queue.max_depth or 'any'}")
        async with app.worker(queues={"mail": 8, "reports": 2}) as worker:
            mail = app.queue("mail")
            await mail.apause()  # a maintenance window of the mail server
            await send.aenqueue_many([(f"reader {number}",) for number in range(50)])
            job = await report.aenqueue("May")
            print(f"meanwhile {await job.aresult(timeout=10)}; {(await mail.adepth()).ready} mails wait")
            await mail.aset(concurrency=8)
            await mail.aresume()
            await mail.await_until_empty(timeout="10s")
            print(f"emptied   {(await app.jobs(queue='mail', state='succeeded').acount()).jobs} mails sent")
            print(f"healthy   {worker.readiness()[0]}")
        print(f"duties    {await app.amaintain('promote')}")


if __name__ == "__main__":
    with place():
        asyncio.run(main())
