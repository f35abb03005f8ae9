"""Mission Control beside Django: for staff alone, and Django everywhere else."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.conf import settings
from django.contrib.auth.models import Permission, User
from django.core.asgi import get_asgi_application
from django.db import connections
from django.test import Client, override_settings

from tests.contrib.django import kit
from windlass import Windlass
from windlass.contrib.django.mission import with_mission_control


@pytest.fixture
async def visitor(on_sqlite: Windlass) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app=with_mission_control(get_asgi_application()))
    async with httpx.AsyncClient(transport=transport, base_url="http://testserver") as client:
        yield client
    await sync_to_async(connections.close_all)()


def session_of(*permissions: str, is_staff: bool = True) -> dict[str, str]:
    User.objects.all().delete()
    user = User.objects.create_user("ada", is_staff=is_staff)
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    client: Any = Client()
    client.force_login(user)
    return {"Cookie": f"sessionid={client.cookies['sessionid'].value}"}


async def test_m5_only_staff_is_let_in(visitor: httpx.AsyncClient) -> None:
    assert (await visitor.get("/windlass/api/jobs")).status_code == 403
    for permissions, is_staff in ((("view_job",), False), ((), True)):
        session = await sync_to_async(session_of)(*permissions, is_staff=is_staff)
        assert (await visitor.get("/windlass/api/jobs", headers=session)).status_code == 403
    assert (await visitor.get("/windlass/api/jobs", headers={"Cookie": "sessionid=x"})).status_code == 403


async def test_m5_who_may_view_looks_and_who_may_change_acts(visitor: httpx.AsyncClient) -> None:
    result = await kit.add.aenqueue(1)
    session = await sync_to_async(session_of)("view_job")
    (found,) = (await visitor.get("/windlass/api/jobs", headers=session)).json()["jobs"]
    assert found["id"] == result.id
    assert (await visitor.get("/windlass/queues", headers=session)).status_code == 200
    cancel = f"/windlass/api/jobs/{result.id}/cancel"
    assert (await visitor.post(cancel, headers=session)).status_code == 403
    session = await sync_to_async(session_of)("view_job", "change_job")
    assert (await visitor.post(cancel, headers=session)).status_code == 200


async def test_m5_a_new_secret_key_logs_nobody_out(visitor: httpx.AsyncClient) -> None:
    """Django then gives a session another key, which only its own answers tell the browser."""
    session = await sync_to_async(session_of)("view_job")
    old = settings.SECRET_KEY
    with override_settings(SECRET_KEY=old[::-1], SECRET_KEY_FALLBACKS=[old]):
        for _ in range(2):
            assert (await visitor.get("/windlass/api/jobs", headers=session)).status_code == 200


async def test_everything_else_is_django(visitor: httpx.AsyncClient) -> None:
    assert (await visitor.get("/admin/")).status_code == 302
    assert (await visitor.get("/windlassen")).status_code == 404
