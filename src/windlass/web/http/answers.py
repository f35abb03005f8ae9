"""Answers as ASGI messages, and the headers that every one of them carries [M5]."""

from __future__ import annotations

import json
from typing import Any, Final

import msgspec
from starlette.types import Message, Send

from windlass.web.http.problems import Problem

CSP: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS: Final = [
    (b"content-security-policy", CSP.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"same-origin"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
]
NO_STORE: Final = (b"cache-control", b"no-store")
JSON: Final = b"application/json"
_ENCODER: Final = msgspec.json.Encoder()

Headers = list[tuple[bytes, bytes]]


class ErrorDetail(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An error: a code for programs, and a message for people."""

    code: str
    message: str
    field: str | None = None
    """The field of the request that is wrong, where it is one."""


class ErrorShape(msgspec.Struct, frozen=True):
    """Why a request failed."""

    error: ErrorDetail


def encode(value: Any) -> bytes:
    """A value as JSON. A payload may hold what msgspec does not write: numbers beyond 64 bits, lone
    surrogates."""
    try:
        return _ENCODER.encode(value)
    except (OverflowError, UnicodeEncodeError, ValueError):
        return json.dumps(msgspec.to_builtins(value), allow_nan=False).encode()


def problem_body(problem: Problem) -> bytes:
    """A problem as JSON."""
    return encode(ErrorShape(ErrorDetail(code=problem.code, message=problem.message, field=problem.field)))


def problem_headers(problem: Problem) -> Headers:
    """The headers of a problem."""
    headers: Headers = []
    if problem.retry_after is not None:
        headers.append((b"retry-after", str(problem.retry_after).encode()))
    if problem.status == 401:
        headers.append((b"www-authenticate", b'Basic realm="Windlass", charset="UTF-8"'))
        headers.append((b"www-authenticate", b"Bearer"))
    return headers


async def answer(
    send: Send, status: int, body: bytes, kind: bytes = JSON, headers: Headers | None = None
) -> None:
    """Send a complete response."""
    sent: Headers = [(b"content-type", kind), (b"content-length", str(len(body)).encode()), *(headers or ())]
    await send({"type": "http.response.start", "status": status, "headers": sent})
    await send({"type": "http.response.body", "body": body})


async def refuse(send: Send, problem: Problem, *, as_json: bool = True, last: bool = False) -> None:
    """Send a problem: to programs as JSON, to people as a line of text. `last` closes the connection."""
    headers = problem_headers(problem)
    if last:
        headers.append((b"connection", b"close"))
    if as_json:
        await answer(send, problem.status, problem_body(problem), JSON, headers)
    else:
        text = f"{problem.message}\n".encode(errors="backslashreplace")
        await answer(send, problem.status, text, b"text/plain; charset=utf-8", headers)


def with_common_headers(message: Message) -> Message:
    """Add the headers that every response carries to a response's start, but those that it has: of two the
    last would count."""
    headers = list(message.get("headers") or ())
    own = {name.lower() for name, _ in headers}
    message["headers"] = headers + [each for each in (NO_STORE, *HEADERS) if each[0] not in own]
    return message
