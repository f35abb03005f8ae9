"""The recipes for SQLAlchemy, FastAPI and Flask, each on a real PostgreSQL: an order and its job are there
together, or neither is."""

import importlib
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import httpx
import psycopg
import pytest

WAITS = ("ready", "scheduled")
"""A job in a queue that nobody has declared yet is scheduled for now, until it is promoted."""


@pytest.fixture
def shop(
    request: pytest.FixtureRequest, pg_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ModuleType]:
    """The module of an example, imported anew for a database of its own."""
    monkeypatch.setenv("WINDLASS_DATABASE_URL", pg_dsn)
    monkeypatch.setenv("WINDLASS_WEB_OPERATE", "ada:a-long-secret")
    monkeypatch.setenv("WINDLASS_WEB_HOSTS", "testserver")
    name = f"examples.{request.param}.shop"
    sys.modules.pop(name, None)
    module = importlib.import_module(name)
    yield module
    module.jobs.close()
    sys.modules.pop(name, None)


def count(dsn: str, table: str) -> int:
    with psycopg.connect(dsn) as connection:
        ((found,),) = connection.execute(f"SELECT count(*) FROM {table}").fetchall()
        return int(found)


@pytest.mark.parametrize("shop", ["sqlalchemy_orders"], indirect=True)
def test_e1_sqlalchemy_orders(shop: Any, pg_dsn: str, capsys: pytest.CaptureFixture[str]) -> None:
    sys.modules.pop("examples.sqlalchemy_orders.__main__", None)
    importlib.import_module("examples.sqlalchemy_orders.__main__").main()
    assert sorted(capsys.readouterr().out.splitlines()) == [
        "To ada@example.org: your order 1 is on its way.",
        "To bob@example.org: your order 2 is on its way.",
        "declined  nobody can be charged nothing",
        "jobs run  2",
        "ordered   1 2",
        "orders    2",
    ]
    assert count(pg_dsn, "windlass.job") == count(pg_dsn, "sqlalchemy_order") == 2


@pytest.mark.parametrize("shop", ["fastapi_shop"], indirect=True)
async def test_e1_fastapi_shop(shop: Any, pg_dsn: str) -> None:
    transport = httpx.ASGITransport(app=shop.api)
    async with (
        shop.api.router.lifespan_context(shop.api),
        httpx.AsyncClient(transport=transport, base_url="http://testserver") as client,
    ):
        made = await client.post("/orders", json={"email": "ada@example.org", "cents": 1999})
        assert made.status_code == 201
        declined = await client.post("/orders", json={"email": "eve@declined.example", "cents": 1999})
        assert declined.status_code == 402
        assert count(pg_dsn, "fastapi_order") == count(pg_dsn, "windlass.job") == 1
        job = made.json()["job"]
        assert (await client.get(f"/jobs/{job}")).json()["state"] in WAITS
        assert (await client.get("/jobs/12345")).status_code == 404

        assert (await client.get("/windlass/api/jobs")).status_code == 401
        ada = {"Authorization": "Bearer a-long-secret"}
        (listed,) = (await client.get("/windlass/api/jobs", headers=ada)).json()["jobs"]
        assert listed["id"] == job
        assert (await client.get("/windlass/queues", headers=ada)).status_code == 200
    assert shop.jobs._store_handle()._own == {}  # the lifespan closed the store of its loop
    assert (await shop.jobs.arun_until_idle()).succeeded == 1
    assert await shop.jobs.job(job).aresult() == "To ada@example.org: your order 1 is on its way."


@pytest.mark.parametrize("shop", ["flask_shop"], indirect=True)
def test_e1_flask_shop(shop: Any, pg_dsn: str) -> None:
    assert shop.web.test_cli_runner().invoke(args=["init-db"]).exit_code == 0
    client = shop.web.test_client()
    made = client.post("/orders", data={"email": "ada@example.org", "cents": "1999"})
    assert made.status_code == 201
    assert client.post("/orders", data={"email": "eve@example.org", "cents": "0"}).status_code == 402
    assert count(pg_dsn, "flask_order") == count(pg_dsn, "windlass.job") == 1
    job = made.json["job"]
    assert client.get(f"/jobs/{job}").json["state"] in WAITS
    assert client.get("/jobs/12345").status_code == 404
    assert client.get("/jobs/12345?wait=5").status_code == 404
    assert client.get(f"/jobs/{2**70}").status_code == 404
    assert client.get(f"/jobs/{job}?wait=0.05").status_code == 202
    assert client.get(f"/jobs/{job}?wait=-1").status_code == 202
    assert shop.jobs.run_until_idle().succeeded == 1
    assert client.get(f"/jobs/{job}?wait=5").json == {
        "result": "To ada@example.org: your order 1 is on its way."
    }
    given_up = shop.send_receipt.enqueue(2, "bob@example.org")
    given_up.cancel()
    found = client.get(f"/jobs/{given_up}?wait=5")
    assert (found.status_code, found.json["state"]) == (200, "cancelled")
