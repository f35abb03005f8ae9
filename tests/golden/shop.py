"""The app that commands in transcripts name: a task whose arguments are checked, and which knows what is
missing."""

from collections.abc import AsyncIterator

from windlass import Windlass

app = Windlass()


@app.task(name="mail.send", queue="mail")
async def send(to: str, copies: int = 1) -> None:
    """Send a mail."""


@send.find_gaps(every="1h")
async def unsent() -> AsyncIterator[tuple[str]]:
    """Yield whom nothing was sent to."""
    for name in ("jo", "kit"):
        yield (f"{name}@example.com",)
