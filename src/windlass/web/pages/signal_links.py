"""The pages behind `app.signal_url(…)`: no login, no script, and of all styles a line [W2].

Scanners of mails open every address, so that opening one only asks; the button sends. What is wrong is said
in a line, and the same whether a job is gone or has ended. Wrong signatures are slowed like wrong logins
[M5].
"""

from __future__ import annotations

import time
from base64 import b64encode
from collections.abc import Awaitable, Callable
from hashlib import sha256
from html import escape
from typing import TYPE_CHECKING, Final

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from windlass.errors import InvalidPayload, JobNotFound, SignalRefused
from windlass.handles import signal_links
from windlass.handles.signal_links import Link
from windlass.presentation.text import one_line
from windlass.store.records import Once
from windlass.web.http.login_throttle import LoginThrottle

if TYPE_CHECKING:
    from windlass.app import Windlass

KEPT_LONGER: Final = 86400.0
"""Seconds for which it is remembered that an address was used after it has expired: clocks differ."""

_STYLE: Final = (
    ":root{color-scheme:light dark}body{margin:0;font:1rem/1.5 system-ui,sans-serif;overflow-wrap:anywhere}"
    "main{max-width:34rem;margin:12vh auto;padding:0 1.25rem}"
    "button{font:inherit;font-weight:600;padding:.6rem 1.75rem;cursor:pointer}"
)
_HASH: Final = b64encode(sha256(_STYLE.encode()).digest()).decode()
_HEADERS: Final = {
    "cache-control": "no-store",
    "referrer-policy": "no-referrer",
    "content-security-policy": f"default-src 'none'; style-src 'sha256-{_HASH}'; img-src data:; form-action "
    "'self'; base-uri 'none'; frame-ancestors 'none'",
}
_WRONG: Final = (404, "This address is not complete, or was changed.")
_LATE: Final = (410, "This address has expired.")
_WHY: Final = {
    "used": (410, "This address was used before."),
    "ended": (410, "Nobody waits for this answer any more."),
    "full": (409, "This answer cannot be taken now. Try again later."),
}
_MISFIT: Final = (409, "This answer does not fit what is asked for now.")
_SENT: Final = (200, "Thank you. Your answer is on its way.")
_SLOW: Final = (429, "There were too many wrong addresses. Try again in a minute.")


def route(app: Windlass) -> Route:
    """The one address, which is open to everybody."""
    return Route(f"{signal_links.PATH}{{token}}", _endpoint(app), methods=["GET", "POST"])


def _endpoint(app: Windlass) -> Callable[[Request], Awaitable[Response]]:
    throttle = LoginThrottle()

    async def endpoint(request: Request) -> Response:
        """Ask, or send."""
        link = signal_links.read(app.settings.secret, request.path_params["token"])
        if link is not None:  # at any time: others may be guessing behind the same proxy
            return await _answer(app, link, sends=request.method == "POST")
        address = request.client.host if request.client is not None else ""
        if throttle.blocks(address):
            return _page(*_SLOW)
        if throttle.failed(address, ""):
            await throttle.delay(address)
            return _page(*_SLOW)
        return _page(*_WRONG)

    return endpoint


async def _answer(app: Windlass, link: Link, *, sends: bool) -> Response:
    if link.expires < time.time():
        return _page(*_LATE)
    if not sends:
        return _ask(link)
    lasts = max(link.expires - time.time(), 0.0) + KEPT_LONGER
    try:
        await app.job(link.job)._asignal(link.name, link.value, Once(link.nonce, lasts))
    except SignalRefused as refused:
        return _page(*_WHY.get(refused.why, _WHY["ended"]))
    except JobNotFound:
        return _page(*_WHY["ended"])
    except InvalidPayload:
        return _page(*_MISFIT)
    return _page(*_SENT)


def _ask(link: Link) -> Response:
    value = "" if link.value == "null" else f": <b>{escape(one_line(link.value, 200))}</b>"
    button = '<form method="post"><button type="submit">Send</button></form>'
    return _html(200, f"<p>Send your answer <b>{escape(link.name)}</b>{value}?</p>{button}")


def _page(status: int, words: str) -> Response:
    return _html(status, f"<p>{escape(words)}</p>")


def _html(status: int, body: str) -> Response:
    page = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Your answer</title>'
        '<meta name="viewport" content="width=device-width"><meta name="robots" content="noindex">'
        f'<link rel="icon" href="data:,"><style>{_STYLE}</style></head>'
        f"<body><main>{body}</main></body></html>"
    )
    return HTMLResponse(page, status, _HEADERS)
