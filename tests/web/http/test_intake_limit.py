"""Single enqueues over HTTP: their hooks are their own, and a process that cannot keep up says so."""

import asyncio
import contextvars
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import msgspec
import pytest

from tests.web.kit import visiting
from windlass import Windlass
from windlass.operations import new_jobs
from windlass.operations.new_jobs import IntakeLimit
from windlass.operations.refusals import Overloaded
from windlass.running.hooks import Sending
from windlass.store.records import NewJob
from windlass.web.http.problems import problem_of

caller: contextvars.ContextVar[str] = contextvars.ContextVar("caller", default="nobody")


@pytest.mark.parametrize(("bound", "value"), [("MAX_JOBS", 2), ("MAX_SIZE", 9)])
def test_where_too_many_wait_the_next_one_is_told_when_to_come_again(
    monkeypatch: pytest.MonkeyPatch, bound: str, value: int
) -> None:
    monkeypatch.setattr(new_jobs, bound, value)
    limit, job = IntakeLimit(), NewJob(task="a", payload="1234")
    with limit.admit(job):
        with limit.admit(job), pytest.raises(Overloaded) as busy, limit.admit(job):
            pass
        told = problem_of(busy.value)
        assert (told.status, told.code, told.retry_after) == (503, "busy", 2)
        with limit.admit(job):
            pass


async def test_enqueue_hooks_are_around_each_callers_own_job(any_app: Windlass) -> None:
    """[E7] [M1]: a trace is the caller's, and a hook that breaks after the sending doubles nothing."""
    seen: list[tuple[str, int]] = []

    @contextmanager
    def sign(sending: Sending) -> Iterator[None]:
        sending.jobs = [
            msgspec.structs.replace(job, options=msgspec.structs.replace(job.options, tags=(caller.get(),)))
            for job in sending.jobs
        ]
        yield
        seen.append((caller.get(), sending.receipts[0].id))
        raise RuntimeError("the collector is gone")

    async def post(visitor: httpx.AsyncClient, name: str) -> tuple[str, int]:
        caller.set(name)
        answer = await visitor.post("/api/jobs", json={"task": "mail.send"})
        assert answer.status_code == 201
        return name, int(answer.json()["id"])

    any_app.hooks.around_enqueue(sign)
    async with any_app, visiting(any_app) as visitor:
        posts = [asyncio.create_task(post(visitor, f"caller-{n}")) for n in range(10)]
        given = await asyncio.gather(*posts)
        assert sorted(seen) == sorted(given)
        found = (await visitor.get("/api/jobs")).json()["jobs"]
        assert {(job["tags"][0], int(job["id"])) for job in found} == set(given)
        assert len(found) == 10
