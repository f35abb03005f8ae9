"""A host asks at once for what an operator has changed, on every store [K1] [K2] [O5]. The looks that stand
behind that come once a minute here."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.test_member import Local, membership, seated
from tests.worker.line import Line, until
from windlass.cluster import coordinator, member
from windlass.cluster.member import Member
from windlass.store.factory import make_store
from windlass.store.protocol import Store
from windlass.store.records import ClaimedJob, NewJob

SOON = 15.0
NEVER = 60.0
"""Seconds: far more than a test has."""


@pytest.fixture(autouse=True)
def seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look once a minute."""
    monkeypatch.setattr(member, "STEER_EVERY", NEVER)
    monkeypatch.setattr(coordinator, "SLOTS_EVERY", NEVER)


@pytest.fixture(params=["sqlite", "postgres"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        dsn: str = request.getfixturevalue("pg_dsn")
        return dsn
    return f"sqlite:///{tmp_path.as_posix()}/jobs.db"


@pytest.fixture
async def operator(address: str) -> AsyncIterator[Store]:
    """The store of another process."""
    store = make_store(address)
    await store.open()
    yield store
    await store.close()


@pytest.fixture
async def host(address: str, operator: Store) -> AsyncIterator[tuple[Line, Member, Local]]:
    """A host with worker 7, which serves the queue mail and has its slots."""
    line = Line(make_store(address))
    await operator.set_queue("mail", {"max_workers": 4})
    async with membership(line, {"mail": None}, lease=900.0) as joined:
        (local,) = await seated(line, joined, 7)
        await until(lambda: joined._receives, SOON)
        await until(lambda: local.slots == {"mail": 4}, SOON)
        yield line, joined, local
    await line.close()


async def test_k2_slots_follow_a_pause_a_resume_and_a_resize(
    operator: Store, host: tuple[Line, Member, Local]
) -> None:
    _, _, local = host
    changes: list[tuple[dict[str, Any], int]] = [
        ({"paused": True}, 0),
        ({"paused": False}, 4),
        ({"process_slots": 2}, 2),
        ({"process_slots": None}, 4),
        ({"max_workers": 9}, 9),  # which the coordinator has to share out first
        ({"max_workers": 1}, 1),
    ]
    for change, slots in changes:
        await operator.set_queue("mail", change)
        await until(lambda slots=slots: local.slots == {"mail": slots}, SOON)  # type: ignore[misc]


async def held(line: Line, operator: Store) -> ClaimedJob:
    """A job that worker 7 holds."""
    await operator.enqueue([NewJob(task="t", payload="{}", queue="mail")])
    (claim,) = await line.claim(7, ["mail"], 1)
    job: ClaimedJob = claim.jobs[0]
    return job


async def test_o5_a_worker_is_told_of_a_cancel(operator: Store, host: tuple[Line, Member, Local]) -> None:
    """Also of a second one while the first is not heeded."""
    line, _, local = host
    one, other = [(await held(line, operator)).id for _ in range(2)]
    assert await operator.cancel([one]) == {one: "requested"}
    await until(lambda: {one} in local.cancels, SOON)
    assert await operator.delete([other]) == {other: "requested"}
    await until(lambda: {one, other} in local.cancels, SOON)


async def test_o5_cancels_that_come_while_one_is_asked_for_lead_to_one_question(
    operator: Store, host: tuple[Line, Member, Local], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(member, "AGAIN", NEVER)
    line, joined, local = host
    first, *jobs = [(await held(line, operator)).id for _ in range(20)]
    goes_on = asyncio.Event()
    line.before["heartbeat"] = lambda *_: goes_on.wait()
    before = line.calls["heartbeat"]
    await operator.cancel([first])
    await until(lambda: line.calls["heartbeat"] == before + 1, SOON)
    await operator.cancel(jobs)
    await until(lambda: joined._to_ask, SOON)
    goes_on.set()
    await until(lambda: {first, *jobs} in local.cancels, SOON)
    assert line.calls["heartbeat"] <= before + 3  # the word of the last may come while it is asked for


async def test_o5_a_host_that_no_wake_up_reaches_finds_a_cancel_when_it_looks(
    address: str, operator: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind a transaction pooler, or where a file system has no sockets."""
    monkeypatch.setattr(member, "STEER_EVERY", 0.1)
    line = Line(make_store(address))
    line.before["relay"] = never
    async with membership(line, {"mail": 4}, lease=900.0) as joined:
        (local,) = await seated(line, joined, 7)
        job = await held(line, operator)
        assert await operator.cancel([job.id]) == {job.id: "requested"}
        await until(lambda: {job.id} in local.cancels, SOON)
    await line.close()


async def never(*_: object) -> None:
    await asyncio.Event().wait()
