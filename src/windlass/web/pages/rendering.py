"""From values to HTML: the templates, what they may call, and the links they write.

Everything is escaped, and what is not meant to be seen (controls, directions, half characters) is written
out, so that hostile text in any field is shown as text [M5]. Links begin with the prefix that the app is
mounted under; a page never needs to know it.
"""

from __future__ import annotations

import hashlib
import json
import time
from functools import cache
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode

import jinja2
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse

from windlass import __version__
from windlass.core.counts import plural
from windlass.core.harmless import harmless
from windlass.operations.principal import Principal, Role
from windlass.presentation.text import capped, one_line
from windlass.store.records import JobFilter
from windlass.web.pages import figures, strips
from windlass.web.pages.done import NOTICE, notice
from windlass.web.pages.search import write_search

HERE: Final = Path(__file__).parent.parent
STATIC: Final = HERE / "static"
READ_ONLY: Final = "windlass.read_only"
"""The key of a request's scope that says why nothing can be changed."""
_UNKNOWN: Final = Principal("nobody", Role.NOBODY)


def principal_of(request: Request) -> Principal:
    """The principal that the guard set; one without rights where it set none."""
    principal = request.scope.get("windlass.principal", _UNKNOWN)
    return principal if isinstance(principal, Principal) else _UNKNOWN


def link(request: Request, path: str, **query: Any) -> str:
    """An address of ours below whatever prefix the app is mounted under; None leaves a key out."""
    values = {key: str(value) for key, value in query.items() if value is not None and value != ""}
    address = request.scope.get("root_path", "").rstrip("/") + quote(path, safe="/:@-._~!$&'()*+,;=")
    return f"{address}?{urlencode(values)}" if values else address


def link_name(name: str) -> str:
    """A name as a piece of an address."""
    return quote(name, safe="")


def render(request: Request, template: str, status: int = 200, **values: Any) -> HTMLResponse:
    """A rendered page. It is never cached: it shows the store as it is now."""
    principal = principal_of(request)
    read_only = request.scope.get(READ_ONLY, lambda: None)()
    html = (
        _environment()
        .get_template(template)
        .render(
            root=request.scope.get("root_path", "").rstrip("/"),
            principal=principal,
            may=principal.role >= Role.OPERATE and not read_only,
            read_only=read_only,
            now=values.pop("now", time.time()),
            notice=notice(request.query_params),
            version=__version__,
            url=lambda path, **query: link(request, path, **query),
            url_asset=lambda name: request.scope.get("root_path", "").rstrip("/") + _asset(name),
            again=lambda **query: _again(request, query),
            **values,
        )
    )
    return HTMLResponse(html, status, headers={"Cache-Control": "no-store"})


def _again(request: Request, changes: dict[str, Any]) -> str:
    """The address of this page with other values in its query, and without the notice of the last action."""
    query = {key: value for key, value in request.query_params.items() if key not in NOTICE}
    return link(
        request, request.scope["path"].removeprefix(request.scope.get("root_path", "")), **query | changes
    )


@cache
def _environment() -> jinja2.Environment:
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
        auto_reload=False,
    )
    made.filters |= {
        "number": figures.number,
        "ms": figures.milliseconds,
        "seconds": figures.seconds,
        "size": figures.size,
        "pretty": figures.pretty,
        "utc": figures.utc,
        "capped": capped,
        "one_line": one_line,
        "marked": _marked,
        "segment": link_name,
        "tojson_text": lambda value: json.dumps(value, ensure_ascii=False),
    }
    made.globals |= {
        "away": figures.away,
        "moment": figures.moment,
        "percent": figures.percent,
        "plural": plural,
        "cells": strips.cells,
        "search_for": lambda **where: write_search(JobFilter(**where)),
    }
    return made


def _shown(value: Any) -> Any:
    """Return how a value of a template is written, before it is escaped."""
    if value is None:
        return ""
    if isinstance(value, str) and not isinstance(value, Markup):
        return harmless(value, lines=True)
    return value


def _marked(text: str) -> Markup:
    """Words with `commands` in them, as findings have them."""
    pieces = harmless(text).split("`")
    return Markup("").join(
        Markup("<code>{}</code>").format(piece) if place % 2 and place < len(pieces) - 1 else piece
        for place, piece in enumerate(pieces)
    )


@cache
def _asset(name: str) -> str:
    """A static file's path with a mark of its content, so that browsers may keep it for good."""
    mark = hashlib.sha256((STATIC / name).read_bytes()).hexdigest()[:10]
    return f"/static/{name}?v={mark}"
