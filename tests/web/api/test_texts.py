"""Texts that no store can keep are refused where they come in, on every store in the same words [M6]."""

import json
from typing import Any

from tests.web.kit import visiting
from windlass import Windlass
from windlass.errors import InvalidPayload
from windlass.store.sqlite import SQLiteStore

BAD = {"NUL": "a\0b", "half": "a\ud800b"}
BODIES: list[tuple[str, str, dict[str, Any]]] = [
    ("POST", "/api/budgets/b/drain", {"pause": 1, "key": "?"}),
    ("POST", "/api/bulk/preview", {"tag": "?"}),
    ("POST", "/api/bulk", {"verb": "retry", "where": {"text": "?"}}),
    ("POST", "/api/jobs", {"task": "a", "args": ["?"]}),
    ("POST", "/api/jobs", {"task": "a", "unique_key": "?"}),
    ("POST", "/api/jobs", {"task": "a", "idempotency_key": "?"}),
    ("POST", "/api/jobs", {"task": "a", "fair_key": "?"}),
    ("POST", "/api/jobs", {"task": "a", "ordering_key": "?"}),
    ("POST", "/api/jobs", {"task": "a", "tags": ["?"]}),
    ("POST", "/api/jobs", {"task": "a", "headers": {"x": "?"}}),
    ("POST", "/api/jobs", {"task": "a", "headers": {"?": "x"}}),
    ("POST", "/api/jobs", {"task": "a", "trace": "?"}),
]
ADDRESSES = [
    "/api/queues/default/watermarks?key=%00",
    "/api/events?queue=%00",
    "/api/queues/a%00b",
    "/api/jobs?tag=a%00b",
    "/events?queue=a%00b",
    "/queues/a%00b",
    "/jobs?q=a%00b",
    "/dead?task=a%00b",
]
DRIVERS = ("asyncpg", "apsw", "UTF8", "encoding", "sequence", "codec", "unicode", "column")


def named(value: Any, bad: str) -> Any:
    return json.loads(json.dumps(value).replace("?", json.dumps(bad)[1:-1]))


async def test_a_text_that_cannot_be_kept_is_refused(any_app: Windlass) -> None:
    async with any_app, visiting(any_app) as visitor:
        assert (await visitor.put("/api/budgets/b", json={"rate": 1, "burst": 1})).status_code == 200
        for kind, bad in BAD.items():
            for method, path, body in BODIES:
                if kind == "NUL" and "args" in body:
                    continue  # JSON has a way to write it
                answer = await visitor.request(
                    method,
                    path,
                    content=json.dumps(named(body, bad)),
                    headers={"content-type": "application/json"},
                )
                assert answer.status_code == 400, (kind, path, body, answer.text)
                assert not [word for word in DRIVERS if word in answer.text], (kind, body, answer.text)
        for address in ADDRESSES:
            answer = await visitor.get(address)
            assert answer.status_code in (400, 404), address
            assert not [word for word in DRIVERS if word in answer.text], address
        form = {"content-type": "application/x-www-form-urlencoded"}
        for path, content in (("/budgets/b", "do=set&rate=a%00b"), ("/schedules/a%00b", "do=run")):
            assert (await visitor.post(path, content=content, headers=form)).status_code in (400, 404)


class Mapped(SQLiteStore):
    """A store whose database refuses a value in words of its own."""

    async def drain(self, *args: Any, **options: Any) -> Any:  # type: ignore[misc]
        error = RuntimeError("numeric overflow in hunter2")
        error.sqlstate = "22003"  # type: ignore[attr-defined]
        raise InvalidPayload("numeric overflow in hunter2") from error


async def test_a_database_does_not_speak_for_itself() -> None:
    with Windlass(store=Mapped(":memory:")) as app:
        async with visiting(app) as visitor:
            await visitor.put("/api/budgets/b", json={"rate": 1, "burst": 1})
            answer = await visitor.post("/api/budgets/b/drain", json={"pause": 1})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_payload")
    assert "hunter2" not in answer.text
