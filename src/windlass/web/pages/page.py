"""What a page is: an address, who may have it, and what answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple, TypeAlias

from starlette.requests import Request
from starlette.responses import Response

from windlass.web.http.principal import Role
from windlass.web.service.service import Service

Handler: TypeAlias = Callable[[Service, Request], Awaitable[Response]]


class Page(NamedTuple):
    """One page or one form: its address, its method, the role it needs and what answers it."""

    path: str
    method: str
    role: Role
    handler: Handler
