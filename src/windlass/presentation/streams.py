"""Streams of jobs as operators see them: in commands, in the API and on pages [W3]."""

from __future__ import annotations

from typing import Any

import msgspec

from windlass.codec import sealed_in_words
from windlass.core.read_errors import READ_ERRORS
from windlass.presentation.text import iso
from windlass.running.encoding import decode
from windlass.store.records import StreamPage


class StreamEventShape(msgspec.Struct, frozen=True, kw_only=True):
    """An event of a job's stream. What a codec has sealed stays so: operators need no key."""

    position: int
    """Its place in the stream, from 1."""
    attempt: int
    run: int
    """The run that emitted it, from 1: a crash begins a new run of the same attempt."""
    at: str | None
    value: Any
    gone: int = 0
    """How many events right before it are gone: the stream was too long to be kept as a whole."""
    sealed: str | None = None
    """How it is sealed, in words, where a codec has sealed it, or "unreadable"; the value is null then."""


def stream_shapes(page: StreamPage, after: int) -> list[StreamEventShape]:
    """The events of a page after this position."""
    found: list[StreamEventShape] = []
    for batch in page.batches:
        sealed = sealed_in_words(batch.events)
        try:
            values = [None] * batch.n if sealed else decode(batch.events)
        except READ_ERRORS:
            sealed, values = "unreadable", [None] * batch.n
        at = iso(batch.at)
        for position, value in enumerate(values, batch.first):
            if position > after:
                gone, after = position - after - 1, position
                found.append(
                    StreamEventShape(
                        position=position,
                        attempt=batch.attempt,
                        run=batch.run,
                        at=at,
                        value=value,
                        gone=gone,
                        sealed=sealed,
                    )
                )
    return found
