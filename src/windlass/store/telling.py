"""What every store keeps of what it is told [M1] [M2]: for how long, how much, and in which form."""

from __future__ import annotations

import math
from typing import Final

import msgspec

from windlass.core.rollup import KEPT
from windlass.store.measures import Event

EVENTS_KEPT: Final = 7 * 86400.0
MOST_EVENTS: Final = 1_000_000
TELLERS_KEPT: Final = 86400.0
"""Seconds for which a process that has fallen silent is remembered: it may send its last news again. Workers
that are alive are remembered for as long as they are."""
LONGEST_TOLD: Final = 500
NEWS_COUNTED: Final = 10_000


def kept(event: Event, now: float = math.inf) -> Event:
    """An event as it can be kept: its texts cut to their length, and without what a text column refuses (NUL,
    lone surrogates). One that cannot be written would keep its process from telling anything ever after. And
    none lies in the future, so that those with lower numbers are the older ones."""
    texts = {name: _kept_text(getattr(event, name)) for name in ("told", "queue", "task", "worker")}
    if event.at <= now and all(text == getattr(event, name) for name, text in texts.items()):
        return event
    return msgspec.structs.replace(event, **texts, at=min(event.at, now))


def _kept_text(text: str) -> str:
    return text[:LONGEST_TOLD].replace("\0", "\ufffd").encode("utf-8", "replace").decode("utf-8")


def cutoffs(now: float) -> dict[int, int]:
    """By span: rows of charts that begin before this have outlived their time."""
    return {span: int(now - keep) for span, keep in KEPT.items()}
