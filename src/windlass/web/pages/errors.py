"""What a page says when something is wrong: in the same clothes as the others, with a way back."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from windlass.web.http.problems import Problem
from windlass.web.pages.rendering import render

_TITLES: Final = {
    400: "That does not work as written",
    401: "Who are you?",
    403: "Not yours to do",
    404: "There is no such thing here",
    405: "That cannot be done here",
    409: "It cannot be done as things stand",
    413: "That is too large",
    415: "That cannot be read",
    429: "Too much at once",
    421: "Not by this name",
}
_UNAVAILABLE: Final = {
    "store_unavailable": "The store cannot be reached",
    "timeout": "The store takes too long",
    "store_full": "The store is full",
    "schema": "The store does not fit",
}
"""What is not to be had for now, by its code."""


def _title(problem: Problem) -> str:
    if problem.status == 503:
        return _UNAVAILABLE.get(problem.code, "Not now")
    return _TITLES.get(problem.status, "This failed")


def error_page(request: Request, problem: Problem) -> Response:
    """The page of a problem. Needs nothing of the store, which may be what is wrong."""
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
