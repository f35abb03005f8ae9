"""Codecs: users' data turned into something else on its way into the store, and back on its way out.

    app = Windlass(codec=Encrypted.from_env("SHOP_KEYS"))       # windlass.contrib.encryption

A codec sees the arguments of jobs and schedules, return values, checkpoints, the results of steps, the
values of signals, what jobs emit and what parts cover, each as the bytes of a JSON text. What it makes of
them is stored as a sealed value, which is JSON as well:

    {"$windlass": {"codec": "encrypted", "key": "2026-01", "data": "…"}}

Beside that key stand the few values that the store itself must read: the arguments that budgets go by, and
how many records a part has done. The text `null` says nothing and is stored as it is. Without a codec none of
this is called.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple, Protocol

import msgspec

from windlass.core.read_errors import READ_ERRORS
from windlass.errors import CodecError

__all__ = ["Codec", "Purpose"]

MARK: Final = "$windlass"
"""The key of a sealed value. No argument may be called so."""
NULL: Final = "null"

_is_sealed: Final = re.compile(r'\s*\{\s*"\$windlass"\s*:').match
_encode: Final = msgspec.json.Encoder().encode


class Purpose(NamedTuple):
    """The purpose of a value. A codec that binds a value to its purpose keeps it from being taken for
    another's: the result of one task for the arguments of the next."""

    kind: Literal["payload", "result", "checkpoint", "span", "step", "signal", "stream"]
    task: str


class Codec(Protocol):
    """A codec for `Windlass(codec=…)`. It is called from any thread, and should be quick."""

    @property
    def name(self) -> str:
        """A word that is stored with each value and says who can read it."""

    @property
    def require(self) -> bool:
        """Return whether a value that was stored without the codec, from SQL say, is refused."""

    def encode(self, data: bytes, purpose: Purpose) -> Mapping[str, Any]:
        """Return what to store in place of a value: an object that JSON can carry. A field `key` is shown to
        operators."""

    def decode(self, fields: Mapping[str, Any], purpose: Purpose) -> bytes:
        """The value again. Raises CodecError, or MissingKey where a key is not there."""


def seal(codec: Codec | None, text: str, purpose: Purpose, beside: Mapping[str, Any] | None = None) -> str:
    """The text as it is stored; `beside` stays readable."""
    if codec is None or text == NULL:
        return text
    fields = codec.encode(text.encode(), purpose)
    return _encode({MARK: {"codec": codec.name, **fields}, **(beside or {})}).decode()


def unseal(codec: Codec | None, text: str, purpose: Purpose) -> str:
    """The text as it was before `seal`. Raises CodecError."""
    if text == NULL:
        return text
    if not _is_sealed(text):
        if codec is not None and codec.require:
            raise CodecError(
                f"task {purpose.task}: this {purpose.kind} was stored without the codec {codec.name!r}, "
                "which require=True refuses; enqueue it through an app that has the codec"
            )
        return text
    fields = _fields(text)
    if codec is None:
        raise CodecError(
            f"task {purpose.task}: its {purpose.kind} is {_in_words(fields)}, and this app has no codec; "
            "write Windlass(codec=…) as the app that enqueued it does"
        )
    if fields.pop("codec", None) != codec.name:
        raise CodecError(
            f"task {purpose.task}: its {purpose.kind} was not written by this app's codec, {codec.name!r}; "
            "run it where the codec is the one that wrote it"
        )
    return codec.decode(fields, purpose).decode()


def sealed_in_words(text: str | None) -> str | None:
    """Return the words that operators see of a sealed value: `encrypted (key 2026-01)`. None for any other
    text."""
    if text is None or not _is_sealed(text):
        return None
    try:
        return _in_words(_fields(text))
    except CodecError:
        return None


def _in_words(fields: Mapping[str, Any]) -> str:
    key = f" (key {fields['key']})" if "key" in fields else ""
    return f"{fields.get('codec', 'sealed')}{key}"


def _fields(text: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(text, type=_Sealed).fields
    except READ_ERRORS:
        raise CodecError("a sealed value cannot be read: it is not an object in an object") from None


class _Sealed(msgspec.Struct):
    fields: dict[str, Any] = msgspec.field(name=MARK)
