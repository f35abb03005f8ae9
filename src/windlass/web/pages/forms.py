"""The fields of a sent form: read up to a limit, with each field checked before it reaches the service."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import RedirectResponse

from windlass.operations.bodies import check_texts
from windlass.web.http.problems import Invalid, Problem, found_id
from windlass.web.pages.rendering import link

MAX_BYTES: Final = 64 * 1024
MAX_FIELDS: Final = 1_000
_MAX_DIGITS: Final = 19


class Form:
    """The fields of a form. What is missing reads as an empty text."""

    def __init__(self, fields: list[tuple[str, str]]) -> None:
        self._fields = fields

    def __contains__(self, name: str) -> bool:
        return any(name == key for key, _ in self._fields)

    def text(self, name: str) -> str:
        """A field without the space around it."""
        return next((value.strip() for key, value in self._fields if key == name), "")

    def ids(self, name: str = "id") -> list[int]:
        """Every job that was ticked, each once."""
        return list(dict.fromkeys(found_id(value) for key, value in self._fields if key == name))

    def whole(self, name: str, least: int = 0, most: int = 1_000_000_000) -> int | None:
        """A whole number, or None where the field was left empty."""
        digits = self.text(name).replace(",", "").replace("\N{NARROW NO-BREAK SPACE}", "")
        if not digits:
            return None
        if not (
            digits.isascii()
            and digits.isdigit()
            and len(digits) < _MAX_DIGITS
            and least <= int(digits) <= most
        ):
            raise Invalid(f"{name.replace('_', ' ')}: give a whole number from {least:,} to {most:,}", name)
        return int(digits)

    def decimal(self, name: str, most: float = 1e9) -> float | None:
        """A number that is not negative, or None where the field was left empty."""
        given = self.text(name)
        if not given:
            return None
        try:
            value = float(given)
        except ValueError:
            value = -1.0
        if not 0 <= value <= most:
            raise Invalid(f"{name.replace('_', ' ')}: give a number from 0 to {most:,.0f}", name)
        return value


async def read_form(request: Request) -> Form:
    """The form of a request, as browsers send it."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in ("", "application/x-www-form-urlencoded"):
        raise Problem(415, "unsupported", "send a form as application/x-www-form-urlencoded")
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > MAX_BYTES:
            raise Problem(413, "too_large", f"a form may have at most {MAX_BYTES:,} bytes")
    try:
        fields = parse_qsl(body.decode("ascii"), keep_blank_values=True, max_num_fields=MAX_FIELDS)
    except ValueError:
        raise Invalid("this form cannot be read; go back and send it again") from None
    for name, value in fields:
        check_texts(value, name)
    return Form(fields)


def go(
    request: Request, path: str, did: str = "", n: int | None = None, query: Mapping[str, str] | None = None
) -> RedirectResponse:
    """On to a page that shows what was done; reloading that does it no second time."""
    return RedirectResponse(link(request, path, **dict(query or {}), did=did or None, n=n), status_code=303)
