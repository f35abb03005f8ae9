"""Dramatiq on Redis: `actor.send` and the `dramatiq` command, with its own Redis broker and its default
middleware.

It has no call that enqueues many: a `group` sends its messages one by one. Its command stops all its
processes when one of them dies and leaves the restart to a process supervisor, which `work` is here.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import Any

import bench_kit
import dramatiq
from dramatiq.brokers.redis import RedisBroker

THREADS, PREFETCH = 8, 128
broker = RedisBroker(url=os.environ.get("BENCH_REDIS", "redis://127.0.0.1:6379/0"))
dramatiq.set_broker(broker)


@dramatiq.actor(queue_name="bench", actor_name="noop")
def noop(number: int, text: str) -> None:
    bench_kit.ran(number)


@dramatiq.actor(queue_name="bench", actor_name="long")
def long(number: int, text: str) -> None:
    bench_kit.ran(number)
    time.sleep(bench_kit.LONG)
    bench_kit.ended(number)


ACTORS: dict[str, Any] = {"noop": noop, "long": long}


class Dramatiq(bench_kit.Peer):
    """The actors above."""

    packages = ("dramatiq", "redis")
    settings = {  # noqa: RUF012
        "pages": "User Guide, Advanced Topics; redis-py's README",
        "worker": f"dramatiq -p P -t {THREADS}: processes of {THREADS} threads, the default",
        "prefetch": f"dramatiq_queue_prefetch={PREFETCH} for short jobs, so that its consumer seldom "
        "waits; for long ones two for each thread, the default",
        "results": "none: the Results middleware is not added",
        "parser": "hiredis, which redis-py advises for speed",
        "wake-up": "it polls an empty queue, after 5 ms first and up to 1 s later: the default",
        "dead worker": "a worker is dead after 60 s without a command of its own; its jobs come back when "
        "some other command does the maintenance, a chance of 1 in 1,000 for each: the defaults. A busy "
        "queue needs seconds more, an idle one many minutes",
        "restart": "when one process dies, the command stops the others and ends; it is started again at "
        "once",
    }
    blocking = True
    supervises = True

    async def open(self) -> None:
        broker.client.ping()

    async def close(self) -> None:
        broker.close()

    async def send(self, number: int, kind: str) -> None:
        ACTORS[kind].send(number, bench_kit.TEXT)

    def work(self, processes: int, slots: int | None) -> None:
        words = ["-m", "dramatiq", "peer", "-p", str(processes), "-t", str(slots or THREADS), "-Q", "bench"]
        environment = {**os.environ, **({} if slots else {"dramatiq_queue_prefetch": str(PREFETCH)})}
        stopping = False
        child: subprocess.Popen[bytes] | None = None

        def stop(*_: object) -> None:
            nonlocal stopping
            stopping = True
            if child is not None:
                child.terminate()

        signal.signal(signal.SIGTERM, stop)
        while not stopping:
            child = subprocess.Popen([sys.executable, *words], env=environment)
            if stopping:  # the signal came before there was a child to pass it to
                child.terminate()
            child.wait()
            time.sleep(0.1)  # as long as systemd waits

    async def left(self) -> int | None:
        return int(broker.do_qsize("bench"))


if __name__ == "__main__":
    bench_kit.main(Dramatiq)
