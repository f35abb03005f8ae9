"""Tasks that run in other processes, in a module that those can import."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import msgspec

from windlass import Cancelled, Dead, Retry, Snooze, SourceGone, Throttled, Windlass

app = Windlass("sqlite:///:memory:")
hidden = Windlass("sqlite:///:memory:")
calls = 0


class Order(msgspec.Struct):
    """An argument with a type of its own."""

    number: int


@app.task(mode="process")
def add(left: int, right: int = 1) -> int:
    return left + right


@app.task(mode="process")
def double(order: Order) -> Order:
    return Order(order.number * 2)


@app.task(mode="process")
def nothing() -> None: ...


@app.task(mode="process")
def where() -> tuple[int, int, bool]:
    global calls  # noqa: PLW0603 - that a child is kept shows in what it remembers
    calls += 1
    return os.getpid(), calls, threading.current_thread() is threading.main_thread()


@app.task(mode="process")
def talk() -> str:
    print("said by print", flush=True)  # noqa: T201 - what it prints must not pass for its answer
    os.write(1, b'{"result": "said by fd 1"}\n')
    subprocess.run(["echo", "said by a child"], check=True)
    sys.stdout.write("no newline")
    return sys.stdin.read()


@app.task(mode="process")
def fail() -> None:
    try:
        raise KeyError("the cause")
    except KeyError as error:
        raise ValueError("it \0 is \ud800 wrong") from error


@app.task(mode="process")
def leave(code: int) -> None:
    sys.exit(code)


@app.task(mode="process")
def crash() -> None:
    os.write(2, b"last words\n")
    os._exit(7)


@app.task(mode="process")
def unkeepable() -> Any:
    return object()


class NoCustomer(Dead):
    """A signal of the user's own."""

    def __init__(self, number: int) -> None:
        super().__init__(f"no customer {number}")


class Odd(Dead):
    """One that never says a reason."""

    def __init__(self) -> None:
        pass


SIGNALS = {
    "retry": Retry(),
    "retry after": Retry(after="10s"),
    "retry by factor": Retry(3, base=1, cap=2, jitter=0.5, factor=4),
    "retry with waits": Retry(3, waits=["1m", "4m"]),
    "snooze": Snooze("5m"),
    "throttled": Throttled(),
    "throttled for": Throttled(retry_after="30s"),
    "dead": Dead("no such customer"),
    "gone": SourceGone("file deleted"),
    "cancelled": Cancelled("enough of it"),
    "own": NoCustomer(7),
}


@app.task(mode="process")
def signal(name: str) -> None:
    raise SIGNALS[name]


@app.task(mode="process")
def retry_because() -> None:
    raise Retry(after=1) from OSError("the line is cut")


@app.task(mode="process")
def odd() -> None:
    raise Odd


@app.task(mode="process")
def hang(text: str) -> None:
    subprocess.Popen(["sleep", "1000"])
    Path(text).write_text(f"{os.getpid()}\n")
    time.sleep(1000)


class Picked(KeyError):
    """An error that only the child has the class of."""


@app.task(mode="process", retry=Retry(5, never="LookupError"))
def picky(name: str) -> None:
    raise {"Picked": Picked, "ValueError": ValueError}[name]


def make_local() -> Any:
    @hidden.task(mode="process")
    def local() -> None: ...

    return local
