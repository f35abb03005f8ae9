"""A signal on its way to a job. Every sender's value must fit what the job waits for [W2]."""

from __future__ import annotations

from typing import Any

import msgspec

from windlass.core.json_shapes import misfit
from windlass.core.read_errors import READ_ERRORS
from windlass.errors import InvalidPayload
from windlass.store.protocol import Store
from windlass.store.records import Once


class NewSignal(msgspec.Struct, frozen=True):
    """A signal to send."""

    job: int
    name: str
    text: str
    """Its value as JSON."""
    kept: str
    """The text to keep, which is sealed where the app has a codec."""
    once: Once | None = None

    async def send(self, store: Store, connection: Any = None) -> str:
        """Send it, by way of the store. Raises InvalidPayload where the job waits for a value of another
        type: the wait goes on. A type that is not known here is left to the handler's own reading of it."""
        return await store.signal(
            self.job, self.name, self.kept, once=self.once, connection=connection, fits=self._check
        )

    def _check(self, shape: str) -> None:
        if (wrong := misfit(read_shape(shape), msgspec.json.decode(self.text))) is not None:
            raise InvalidPayload(f"the value does not fit what the job waits for: {wrong}")


def read_shape(shape: str | None) -> Any:
    """Return the JSON schema of the value that a job waits for; None where there is none that can be read."""
    try:
        return None if shape is None else msgspec.json.decode(shape)
    except READ_ERRORS:
        return None
