"""A small app for trying this folder out; put your own in its place."""

from windlass import Windlass

app = Windlass()


@app.task(name="mail.send", queue="mail")
async def send(to: str, template: str) -> None:
    """Send a mail, or it would."""


@app.task(name="imports.load", queue="imports")
async def load(source: str) -> None:
    """Load something, or it would."""
