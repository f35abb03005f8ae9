"""What was just done, shown once on the page that follows: a word and a count in the query, never a text, so
that no link can make a page say what nobody did."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

from windlass.core.counts import plural

Tone = Literal["good", "warn"]


class Notice(NamedTuple):
    """A line above the page."""

    tone: Tone
    text: str


_COUNTED: Final = {
    "cancelled": ("good", "cancelled, or asked to stop where running"),
    "retried": ("good", "offered again"),
    "deleted": ("good", "deleted, or asked to stop where running"),
    "redriven": ("good", "run again, each from where it stopped"),
}
_PLAIN: Final = {
    "none": "Nothing changed: no job was in a state for that.",
    "picked": "Nothing was selected.",
    "replayed": "This job is a copy of the one you replayed.",
    "paused": "Paused. What runs now may finish.",
    "resumed": "Resumed.",
    "warmed": "The cool-down has ended.",
    "unchanged": "Nothing changed: these are the settings it has.",
    "changed": "Changed. It takes effect everywhere within two seconds.",
    "fired": "Started: the schedule has made this job now.",
    "skipped": "Nothing was started: the schedule's job was not taken in.",
    "removed": "Removed.",
    "drained": "Drained: it grants nothing until the pause has passed.",
    "stopped": "Stopped. What was done stays done.",
}
_WARNS: Final = frozenset({"none", "picked", "skipped"})


def notice(query: Mapping[str, str]) -> Notice | None:
    """What a query says was done, if it says so in words of ours."""
    did, count = query.get("did", ""), query.get("n", "")
    if did in _PLAIN:
        return Notice("warn" if did in _WARNS else "good", _PLAIN[did])
    if did in _COUNTED and count.isascii() and count.isdigit() and len(count) < 10:
        noun = "part" if did == "redriven" else "job"
        return Notice("good", f"{plural(int(count), noun)} {_COUNTED[did][1]}.")
    return None
