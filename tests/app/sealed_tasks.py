"""A task that runs in another process, of an app with a codec."""

from windlass import Windlass
from windlass.contrib.encryption import Encrypted

app = Windlass("sqlite:///:memory:", codec=Encrypted({"2026": bytes(32)}, require=True))


@app.task(mode="process")
def double(number: int) -> int:
    return number * 2
