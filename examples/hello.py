"""The first thing to run: a worker with two processes, 302 jobs, a failure, a retry and a job for later.

    python examples/hello.py

It needs no set-up: jobs live in a SQLite file in a temporary directory (set WINDLASS_DATABASE_URL to see the
same on PostgreSQL). It starts `windlass worker hello:app -q mail=16 -q reports=4 -p 2` as you would, enqueues
while that runs, and stops it as an orchestrator would, with SIGTERM. It ends within seconds.
"""

import asyncio
import hashlib
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from windlass import Context, Retry, Windlass

folder = tempfile.TemporaryDirectory(prefix="windlass-hello-")
os.environ.setdefault("WINDLASS_DATABASE_URL", f"sqlite:///{Path(folder.name).as_posix()}/hello.db")
app = Windlass()  # the worker's processes inherit the address


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


@app.task(queue="mail", retry=Retry(3, base="500ms"))
async def flaky(ctx: Context) -> str:
    """Fails the first time it runs; Windlass tries it again half a second later."""
    if ctx.attempt == 1:
        raise ConnectionError("the mail server hung up")
    return f"it worked at attempt {ctx.attempt}"


def main() -> None:
    """Start a worker, enqueue, and tell what happened."""
    app.migrate()
    flags = ["-q", "mail=16", "-q", "reports=4", "-p", "2", "--log-level", "warning"]
    worker = subprocess.Popen(
        [sys.executable, "-m", "windlass", "worker", "hello:app", *flags], cwd=Path(__file__).parent
    )
    try:
        began = time.monotonic()
        hello = greet.enqueue("world")
        many = greet.enqueue_many([(f"reader {number}",) for number in range(199)])
        many += checksum.enqueue_many([{"text": f"page {number}"} for number in range(100)])
        unlucky = flaky.enqueue()
        later = greet.using(delay="1s", priority="high").enqueue("future")
        took = (time.monotonic() - began) * 1000
        print(f"enqueued  302 jobs in {took:.0f} ms; one of them is {later.status()}")
        print(f"result    {hello.result(timeout=30)}")
        print(f"retried   {unlucky.result(timeout=30)}")
        print(f"scheduled {later.result(timeout=30)}")
        done = [app.job(id).result(timeout=30) for id in many]
        print(f"ran       {len(done) + 3} jobs to success, {time.monotonic() - began:.1f} s after the first")
    finally:
        worker.terminate()  # the first SIGTERM shuts down: running jobs finish, the rest is handed back
        worker.wait()
    app.close()
    folder.cleanup()


if __name__ == "__main__":
    main()
