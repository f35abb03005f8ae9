"""Every route by every role: none may be missing from the table, and none is open that should not be [M5]."""

import re

import pytest
from starlette.routing import Mount, Route

from tests.web.kit import HEADERS_OF, OPERATE, READ, visiting
from windlass import Windlass
from windlass.operations.principal import Role
from windlass.web.api.routing import ENDPOINTS
from windlass.web.pages import PAGES

OTHERS = [
    ("GET", "/api/stream", Role.READ),
    ("GET", "/api/jobs/{id}/events", Role.READ),
    ("GET", "/api/openapi.json", Role.READ),
    ("GET", "/metrics", Role.READ),
    ("GET", "/healthz", Role.NOBODY),
    ("GET", "/readyz", Role.NOBODY),
    ("GET", "/static/live.js", Role.READ),
    ("GET", "/signal/{token}", Role.NOBODY),
    ("POST", "/signal/{token}", Role.NOBODY),
]
TABLE = [
    *((each.method, f"/api{each.path}", each.role) for each in ENDPOINTS),
    *((page.method, page.path, page.role) for page in PAGES),
    *OTHERS,
]
STREAMS = {"/api/stream"}


@pytest.mark.parametrize("name", list(HEADERS_OF))
async def test_each_route_lets_in_whom_it_should(app: Windlass, name: str) -> None:
    role = Role[name.upper()]
    wrong = []
    async with visiting(app, read=[READ], operate=[OPERATE], headers=HEADERS_OF[name]) as visitor:
        for method, path, needed in TABLE:
            if path in STREAMS and role >= needed:
                continue  # it would not end; see test_stream.py
            filled = re.sub(r"\{\w+\}", "1", path)
            status = (await visitor.request(method, filled, json={} if "/api" in path else None)).status_code
            refused = 401 if role is Role.NOBODY else 403
            if (status == refused) != (role < needed) or status >= 500:
                wrong.append((method, path, status))
    assert not wrong


def test_the_table_knows_every_route(app: Windlass) -> None:
    """What the router would answer, and nobody has said who may ask for it."""
    known = {path for _, path, _ in TABLE}
    for route in app.web().routes:
        if isinstance(route, Mount):
            assert route.path == "/static"
        else:
            assert isinstance(route, Route)
            assert route.path in known
            found = {method for method, path, _ in TABLE if path == route.path}
            assert (route.methods or set()) - {"HEAD"} == found


def test_what_changes_something_needs_to_operate() -> None:
    reading = {(each.method, each.path) for each in ENDPOINTS if each.role is Role.READ}
    assert {method for method, _ in reading} <= {"GET", "POST"}
    assert [path for method, path in reading if method == "POST"] == ["/bulk/preview"]
    assert all(page.role is Role.OPERATE for page in PAGES if page.method != "GET")


async def test_the_service_itself_checks(app: Windlass) -> None:
    """The role is checked in the action, not only at the door: whoever comes by another way is refused."""
    from windlass.operations.overview import show_overview
    from windlass.operations.principal import Forbidden, Principal
    from windlass.operations.queues import pause_queue
    from windlass.web.service.service import Service

    service = Service(app)
    with pytest.raises(Forbidden):
        await service.run(Principal("nobody", Role.NOBODY), show_overview)
    with pytest.raises(Forbidden):
        await service.run(Principal("viewer", Role.READ), pause_queue, "default")
