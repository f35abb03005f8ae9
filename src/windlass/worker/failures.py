"""What went wrong, in words that can be stored and logged. Any exception must fit, also a hostile one."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from typing import Final

from windlass.errors import RemoteError
from windlass.store.records import Failure

MAX_MESSAGE: Final = 2_000
MAX_TRACEBACK: Final = 20_000
MAX_CAUSES: Final = 10


def describe(error: BaseException, attempt: int) -> Failure:
    """The failure that is kept with the job: type, message and the whole traceback with its causes."""
    trace = "".join(traceback.format_exception(error))
    if isinstance(error, RemoteError):  # where it was raised is in another process
        trace = error.remote_traceback
    if len(trace) > MAX_TRACEBACK:
        trace = "…" + trace[-MAX_TRACEBACK:]  # the end says what failed; the start is often the same frames
    return Failure(
        type=clean(type_name(error)), message=clean(message(error)), traceback=clean(trace), attempt=attempt
    )


def causes(error: BaseException) -> str:
    """The chain of causes on one line, as a log wants it: the failure first, then what led to it [O4]."""
    links = [f"{type_name(link)}: {' '.join(message(link).split())}".rstrip(": ") for link in chain(error)]
    return clean(", caused by ".join(links))


def chain(error: BaseException) -> Iterator[BaseException]:
    """The exception, its cause, the cause's cause, …: each once, and not without end."""
    seen: list[BaseException] = []
    link: BaseException | None = error
    while link is not None and link not in seen and len(seen) < MAX_CAUSES:
        seen.append(link)
        yield link
        link = link.__cause__ or (None if link.__suppress_context__ else link.__context__)


def type_name(error: BaseException) -> str:
    """`KeyError`, `shop.mail.Bounced`."""
    if isinstance(error, RemoteError):
        return error.remote_type
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def message(error: BaseException) -> str:
    """The exception's own words, cut to a length that fits a row and a log line."""
    try:
        text = str(error)
    except Exception as broken:  # noqa: BLE001 - a broken __str__ must not hide the failure it belongs to
        text = f"(its message cannot be read: {type(broken).__name__})"
    return text if len(text) <= MAX_MESSAGE else text[:MAX_MESSAGE] + "…"


def clean(text: str) -> str:
    """Text that every store can keep: no NUL bytes, no lone surrogates."""
    return text.replace("\0", "\\0").encode("utf-8", "backslashreplace").decode()
