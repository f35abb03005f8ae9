"""The first thing to run: a few hundred jobs on a SQLite file, with a failure, a retry and a job for later.

    python examples/hello.py

It needs no set-up: jobs live in a SQLite file in a temporary directory (set WINDLASS_DATABASE_URL to see the
same on PostgreSQL), and everything runs in this one process. It ends within seconds.
"""

import asyncio
import hashlib
import logging
import tempfile
import time
from pathlib import Path

from windlass import Retry, Windlass

folder = tempfile.TemporaryDirectory(prefix="windlass-hello-")
app = Windlass(f"sqlite:///{Path(folder.name).as_posix()}/hello.db")


@app.task(queue="mail")
async def greet(name: str) -> str:
    """An `async def` task runs on the event loop, many at a time."""
    await asyncio.sleep(0.01)
    return f"Hello, {name}!"


@app.task(queue="reports")
def checksum(text: str, rounds: int = 1000) -> str:
    """A plain function runs in a thread."""
    digest = text.encode()
    for _ in range(rounds):
        digest = hashlib.sha256(digest).digest()
    return digest.hex()[:12]


attempts: list[float] = []


@app.task(queue="mail", retry=Retry(3, base="500ms"))
async def flaky() -> str:
    """Fails the first time it runs; Windlass tries it again half a second later."""
    attempts.append(time.monotonic())
    if len(attempts) == 1:
        raise ConnectionError("the mail server hung up")
    return f"it worked {attempts[1] - attempts[0]:.1f} s later, at the second try"


def main() -> None:
    """Enqueue, run, and tell what happened."""
    logging.basicConfig(format="   log   %(levelname)s %(message)s")
    app.migrate()

    began = time.monotonic()
    hello = greet.enqueue("world")
    greet.enqueue_many([(f"reader {number}",) for number in range(199)])
    checksum.enqueue_many([{"text": f"page {number}"} for number in range(100)])
    unlucky = flaky.enqueue()
    later = greet.using(delay="1s", priority="high").enqueue("future")
    took = (time.monotonic() - began) * 1000
    print(f"enqueued  302 jobs in {took:.0f} ms; one of them is {later.status()}")

    began = time.monotonic()
    done = app.run_until_idle(wait="5s")
    took = time.monotonic() - began
    print(f"ran       {done.succeeded} to success in {took:.1f} s; {done.retried} of them failed once before")
    print(f"result    {hello.result()}")
    print(f"retried   {unlucky.status()}: {unlucky.result()}")
    print(f"scheduled {later.status()}: {later.result()}")
    app.close()
    folder.cleanup()


if __name__ == "__main__":
    main()
