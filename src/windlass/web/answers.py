"""Answers as ASGI messages, and the headers that every one of them carries [M5]."""

from __future__ import annotations

import json
from collections.abc import MutableMapping
from typing import Any, Final

import msgspec
from starlette.types import Message, Send

from windlass.web.problems import Problem

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
    """What went wrong: a code that programs can rely on, and words for people."""

    code: str
    message: str
    field: str | None = None
    """The part of the request that is at fault, where one is."""


class ErrorShape(msgspec.Struct, frozen=True):
    """Why a request was not granted."""

    error: ErrorDetail


def encode(value: Any) -> bytes:
    """A value as JSON. A payload may hold what our encoder does not write: numbers beyond 64 bits, half
    characters."""
    try:
        return _ENCODER.encode(value)
    except (OverflowError, UnicodeEncodeError, ValueError):
        return json.dumps(msgspec.to_builtins(value), allow_nan=False).encode()


def problem_body(problem: Problem) -> bytes:
    """A problem as JSON."""
    return encode(ErrorShape(ErrorDetail(code=problem.code, message=problem.message, field=problem.field)))


def problem_headers(problem: Problem) -> Headers:
    """What a problem says in its headers."""
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
    """Send a whole answer."""
    told: Headers = [(b"content-type", kind), (b"content-length", str(len(body)).encode()), *(headers or ())]
    await send({"type": "http.response.start", "status": status, "headers": told})
    await send({"type": "http.response.body", "body": body})


async def refuse(send: Send, problem: Problem, *, as_json: bool = True, last: bool = False) -> None:
    """Say why not: to programs as JSON, to people as a line of text. `last`: and hang up."""
    headers = problem_headers(problem)
    if last:
        headers.append((b"connection", b"close"))
    if as_json:
        await answer(send, problem.status, problem_body(problem), JSON, headers)
    else:
        text = f"{problem.message}\n".encode(errors="backslashreplace")
        await answer(send, problem.status, text, b"text/plain; charset=utf-8", headers)


def dressed(message: Message) -> Message:
    """A response's start with the headers that every response carries."""
    given: MutableMapping[str, Any] = message
    headers = list(given.get("headers") or ())
    if not any(name.lower() == b"cache-control" for name, _ in headers):
        headers.append(NO_STORE)
    given["headers"] = headers + HEADERS
    return message
