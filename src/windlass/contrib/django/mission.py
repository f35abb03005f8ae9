"""Mission Control beside Django, in one ASGI process, for those whom the admin knows [M5].

    # asgi.py
    application = with_mission_control(get_asgi_application())      # at /windlass/

Whoever is logged in, active, staff and may view jobs looks; who may change them acts. Those who are not get a
403 there: log in at the admin first. It answers for the ALLOWED_HOSTS of the project.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from importlib import import_module
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeAlias

from asgiref.sync import sync_to_async
from django.conf import settings

from windlass.contrib.django.app import get_app

if TYPE_CHECKING:
    from starlette.requests import Request

    from windlass.operations.principal import Principal

Scope: TypeAlias = MutableMapping[str, Any]
ASGI: TypeAlias = Callable[[Any, Any, Any], Awaitable[None]]


def with_mission_control(django: ASGI, prefix: str = "/windlass", backend: str | None = None) -> ASGI:
    """An ASGI app that serves Mission Control below `prefix`, and this Django everywhere else."""
    prefix = f"/{prefix.strip('/')}"
    control = get_app(backend).web(authorize=staff, hosts=settings.ALLOWED_HOSTS)

    async def serve(scope: Scope, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":  # Django has none
            await control(scope, receive, send)
            return
        path = scope.get("path", "")
        if scope["type"] == "http" and (path == prefix or path.startswith(f"{prefix}/")):
            await control({**scope, "root_path": scope.get("root_path", "") + prefix}, receive, send)
            return
        await django(scope, receive, send)

    return serve


async def staff(request: Request) -> Principal | None:
    """Who asks, by the session of the Django site; None for those who are not staff."""
    key = request.cookies.get(settings.SESSION_COOKIE_NAME)
    return await sync_to_async(_staff)(key) if key else None


def _staff(key: str) -> Principal | None:
    from django.contrib.auth import get_user
    from django.db import close_old_connections

    from windlass.operations.principal import Principal, Role

    close_old_connections()
    try:
        engine: Any = import_module(settings.SESSION_ENGINE)
        session: Any = engine.SessionStore(key)
        session.cycle_key = lambda: None  # a browser would not hear of another one from here
        user: Any = get_user(SimpleNamespace(session=session))
        if not (user.is_active and user.is_staff and user.has_perm("windlass.view_job")):
            return None
        role = Role.OPERATE if user.has_perm("windlass.change_job") else Role.READ
        return Principal(f"{user.get_username()}@django", role)
    finally:
        close_old_connections()
