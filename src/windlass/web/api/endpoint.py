"""An endpoint of the API, and how a request to it is read: strictly, by the types that also make the OpenAPI
document. An invalid request is refused with the name of the wrong field."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any, Final, Generic, TypeVar

import msgspec

from windlass.operations.bodies import check_texts
from windlass.operations.principal import Principal, Role
from windlass.web.http.problems import Invalid, Problem, found_id
from windlass.web.http.queries import read_query
from windlass.web.service.service import Service

_AT: Final = re.compile(r" - at `\$\.?(.*)`$")


class Nothing(msgspec.Struct, forbid_unknown_fields=True):
    """No fields at all."""


Q = TypeVar("Q")
B = TypeVar("B")


class Call(msgspec.Struct, Generic[Q, B], frozen=True):
    """A request to an endpoint, read and checked."""

    service: Service
    principal: Principal
    path: dict[str, str]
    query: Q
    body: B

    @property
    def id(self) -> int:
        """The id of a job in the path. Raises NotFound for what cannot be one."""
        return found_id(self.path["id"])


Handler = Callable[[Call[Any, Any]], Awaitable[Any]]


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """One endpoint. The role is here for the document and the tests; the action checks it."""

    method: str
    path: str
    role: Role
    summary: str
    handler: Handler
    answer: Any
    """The type of its answer."""
    query: Any
    body: Any
    """The type of its body; None where it takes none."""
    status: int
    tag: str

    @property
    def needs_body(self) -> bool:
        """Return whether a request must have a body: one of its fields has no default."""
        return self.body is not None and any(each.required for each in msgspec.structs.fields(self.body))


def query_of(endpoint: Endpoint, raw: bytes) -> Any:
    """The query of a request."""
    found = read_query(raw, endpoint.query.__struct_fields__)
    try:
        return msgspec.convert(found, endpoint.query, strict=False)
    except msgspec.ValidationError as error:
        raise invalid(error) from None


def read_body(decoder: msgspec.json.Decoder[Any], kind: str, body: bytes) -> Any:
    """The body of a request."""
    if kind.partition(";")[0].strip().lower() != "application/json":
        raise Problem(415, "unsupported", "send the body as application/json")
    try:
        found = decoder.decode(body)
    except msgspec.ValidationError as error:
        raise invalid(error) from None
    except (msgspec.DecodeError, UnicodeError):
        raise Invalid("the body is not JSON; see /api/openapi.json for what it should be") from None
    except RecursionError:
        raise Invalid("the body is nested too deeply") from None
    check_texts(found)
    return found


def invalid(error: msgspec.ValidationError) -> Invalid:
    """Say what is wrong, and in which field."""
    message = str(error)
    found = _AT.search(message)
    return Invalid(message[: found.start()] if found else message, found[1] or None if found else None)
