"""Text for databases whose encoding is not UTF-8. A job's own text is refused where it does not fit. What a
worker must write all the same, such as how a job failed, is made to fit."""

from __future__ import annotations

import codecs
import re
from typing import Final

import msgspec

from windlass.store.records import Event

_SINGLE_BYTES: Final = re.compile(r"LATIN\d+|ISO_8859_\d+|WIN\d+|KOI8[RU]")
_BEYOND: Final = re.compile(r"[^\x00-\x7f]")


class Fit:
    """Makes text fit an encoding of the server: what has no place there becomes \\u1234, in JSON the same
    text."""

    def __init__(self, encoding: str = "UTF8") -> None:
        self._codec: str | None = None
        if encoding not in ("UTF8", "SQL_ASCII"):  # the second keeps whatever bytes come
            # Tables of more than one byte differ between here and there: only ASCII is the same in all.
            single = _SINGLE_BYTES.fullmatch(encoding)
            self._codec = _name(encoding) if single else "ascii"

    def __call__(self, text: str) -> str:
        """The text, as far as it fits."""
        if self._codec is None or text.isascii():
            return text
        return _BEYOND.sub(self._kept, text)

    def event(self, event: Event) -> Event:
        """An event whose texts fit: the server takes them out of their JSON."""
        if self._codec is None:
            return event
        return msgspec.structs.replace(event, text=self(event.text), worker=self(event.worker))

    def _kept(self, found: re.Match[str]) -> str:
        try:
            found[0].encode(self._codec or "ascii")
        except UnicodeEncodeError:
            units = found[0].encode("utf-16-be", "surrogatepass")
            return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))
        return found[0]


AS_IT_IS: Final = Fit()
"""For databases in UTF-8, which take any text."""


def _name(encoding: str) -> str:
    name = encoding.replace("WIN", "cp").replace("KOI8", "KOI8_")
    try:
        return codecs.lookup(name).name
    except LookupError:
        return "ascii"
