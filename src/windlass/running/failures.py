"""Failures, in words that can be stored and logged. Any exception must fit, also a hostile one."""

from __future__ import annotations

import os
import sysconfig
import traceback
from collections.abc import Iterator
from typing import Final

from windlass.core.harmless import harmless
from windlass.errors import RemoteError
from windlass.store.records import Failure

MAX_MESSAGE: Final = 2_000
MAX_TRACEBACK: Final = 20_000
MAX_CAUSES: Final = 10
_WINDLASS: Final = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "")
_PACKAGES: Final = tuple(os.path.join(sysconfig.get_path(kind), "") for kind in ("purelib", "platlib"))
_LIBRARIES: Final = (
    *_PACKAGES,
    *(os.path.join(sysconfig.get_path(kind), "") for kind in ("stdlib", "platstdlib")),
)
"""Where code lives that is not the user's: installed packages, and Python's own."""


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
    """The chain of causes on one line, as a log wants it: the failure first, then what led to it [O4]. What
    a terminal might obey is escaped: messages come from anywhere [M5]."""
    links = [f"{type_name(link)}: {' '.join(message(link).split())}".rstrip(": ") for link in chain(error)]
    return harmless(", caused by ".join(links))


def chain(error: BaseException) -> Iterator[BaseException]:
    """The exception, its cause, the cause's cause, …: each once, and not without end."""
    seen: list[BaseException] = []
    link: BaseException | None = error
    while link is not None and link not in seen and len(seen) < MAX_CAUSES:
        seen.append(link)
        yield link
        link = link.__cause__ or (None if link.__suppress_context__ else link.__context__)


def place(error: BaseException) -> str:
    """Where it was raised, as far as that is the user's own code: `shop/tasks.py, line 12`. Where that is
    installed, the innermost line of any package; empty where no such line is known, or where the error says
    it itself."""
    if isinstance(error, SyntaxError) and error.filename:
        return ""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not frame.filename.startswith((*_LIBRARIES, _WINDLASS, "<"))]
    if not own:
        installed = [frame for frame in frames if frame.filename.startswith(_PACKAGES)]
        own = [frame for frame in installed if not frame.filename.startswith(_WINDLASS)]
    return f"{_shown_path(own[-1].filename)}, line {own[-1].lineno}" if own else ""


def _shown_path(path: str) -> str:
    here = os.path.relpath(path)
    return path if here.startswith("..") else here


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
