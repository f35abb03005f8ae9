"""The error page, in the same layout as the others."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from windlass.web.http.problems import Problem
from windlass.web.pages.rendering import render

_TITLES: Final = {
    400: "Invalid request",
    401: "Log in first",
    403: "Not allowed",
    404: "Not found",
    405: "Method not allowed",
    409: "Not possible in the current state",
    413: "Too large",
    415: "Unsupported content type",
    429: "Too many requests",
    421: "Unknown host name",
}
_UNAVAILABLE: Final = {
    "store_unavailable": "The store cannot be reached",
    "timeout": "The store is too slow",
    "store_full": "The store is full",
    "schema": "The store has another schema version",
}
"""Titles for status 503, by code."""


def _title(problem: Problem) -> str:
    if problem.status == 503:
        return _UNAVAILABLE.get(problem.code, "Temporarily unavailable")
    return _TITLES.get(problem.status, "Internal error")


def error_page(request: Request, problem: Problem) -> Response:
    """The page of a problem. It asks the store nothing: that may be what is down."""
    page = render(
        request,
        "error.html",
        problem.status,
        title=_title(problem),
        message=problem.message,
        outage=problem.status == 503,
        repeatable=request.method in ("GET", "HEAD"),
        problem_status=problem.status,
    )
    if problem.retry_after is not None:
        page.headers["Retry-After"] = str(problem.retry_after)
    return page
