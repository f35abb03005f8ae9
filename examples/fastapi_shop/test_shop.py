"""The shop's own tests, for pytest, with WINDLASS_DATABASE_URL naming a PostgreSQL database to try things in:
`pytest examples/fastapi_shop`."""

import os
from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient

from examples.fastapi_shop import shop
from windlass import Windlass
from windlass.testing import TestMode, assert_enqueued, assert_not_enqueued

ADA = {"email": "ada@example.org", "cents": 1999}
EVE = {"email": "eve@declined.example", "cents": 1999}


@pytest.fixture
def windlass_app() -> Windlass:
    """The app whose jobs the fixture `jobs` keeps: in memory, where nothing else is said."""
    return shop.jobs


@pytest.fixture
def windlass_database() -> str:
    """The database of tests marked with `database=True`: that of the shop."""
    return os.environ["WINDLASS_DATABASE_URL"]


@pytest.fixture
def client(jobs: TestMode) -> Iterator[TestClient]:
    """The service within its lifespan. What it enqueues goes to `jobs`."""
    with TestClient(shop.api) as client:
        yield client


def test_an_order_is_answered_first_and_its_receipt_follows(client: TestClient, jobs: TestMode) -> None:
    made = client.post("/orders", json=ADA)
    assert made.status_code == 201
    order, job = made.json()["order"], made.json()["job"]
    assert_enqueued(shop.jobs, shop.send_receipt, order, ADA["email"])
    assert client.get(f"/jobs/{job}").json()["state"] == "ready"
    jobs.drain()
    assert client.get(f"/jobs/{job}").json() == {
        "state": "succeeded",
        "attempt": 1,
        "result": f"To ada@example.org: your order {order} is on its way.",
    }


def test_what_is_no_order_makes_no_job(client: TestClient) -> None:
    assert client.post("/orders", json={"email": "ada@example.org", "cents": 0}).status_code == 422
    assert_not_enqueued(shop.jobs, shop.send_receipt)


@pytest.mark.windlass(database=True)
def test_a_declined_order_takes_its_job_with_it(client: TestClient, jobs: TestMode) -> None:
    """Transactions are the database's, so the jobs of this test are in it, too."""
    before = shop.jobs.jobs().count().jobs
    assert client.post("/orders", json=EVE).status_code == 402
    assert shop.jobs.jobs().count().jobs == before
    assert client.post("/orders", json=ADA).status_code == 201
    assert shop.jobs.jobs().count().jobs == before + 1
    assert len(jobs.drain().succeeded) == 1


def test_jobs_that_there_are_not(client: TestClient) -> None:
    assert client.get("/jobs/12345").status_code == 404
