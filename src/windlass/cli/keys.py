"""What a verb that draws live needs of a terminal: to hear of a key, and to wait for it or the next frame."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Iterator

_QUIT = "q"


@contextlib.contextmanager
def keys() -> Iterator[asyncio.Event]:
    """Hear of q without Enter, where the terminal can do that; Ctrl-C works everywhere."""
    wanted = asyncio.Event()
    try:
        import termios
        import tty
    except ImportError:
        yield wanted
        return
    if not sys.stdin.isatty():
        yield wanted
        return
    keyboard, loop = sys.stdin.fileno(), asyncio.get_running_loop()
    before = termios.tcgetattr(keyboard)

    def pressed() -> None:
        if sys.stdin.read(1).lower() == _QUIT:
            wanted.set()

    try:
        tty.setcbreak(keyboard)
        loop.add_reader(keyboard, pressed)
        yield wanted
    finally:
        loop.remove_reader(keyboard)
        termios.tcsetattr(keyboard, termios.TCSADRAIN, before)


async def happens(event: asyncio.Event, within: float) -> bool:
    """Whether it has happened within so many seconds; it returns as soon as it has."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(within):
            await event.wait()
    return event.is_set()
