"""`async for job in app.jobs(…)` and its plain twin: jobs by filter, one after the other [M3]."""

from typing import Any

import pytest

from windlass import Retry, State, Windlass
from windlass.errors import InvalidName, InvalidOption
from windlass.handles import jobs as listing


def made(app: Windlass, many: int = 7) -> list[int]:
    """Jobs with a tag, the newest last, and one of another task."""
    app.enqueue("other")
    return [app.named("t").using(tags=["red"], queue="paints").enqueue(n).id for n in range(many)]


def test_a_plain_loop_meets_each_newest_first(any_app: Windlass, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "PAGE", 3)  # seven are three pages
    ids = made(any_app)
    red = any_app.jobs(tag="red", queue="paints", task="t", state="ready")
    assert [job.id for job in red] == ids[::-1]
    assert [job.id for job in red] == ids[::-1], "a second loop begins anew"
    assert {job.task for job in any_app.jobs()} == {"t", "other"}
    assert list(any_app.jobs(state="dead")) == []


async def test_its_twin_is_for_async_code(any_app: Windlass, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "PAGE", 3)
    await any_app.named("other").aenqueue()
    ids = [(await any_app.named("t").using(tags=["red"]).aenqueue(n)).id for n in range(7)]
    red = any_app.jobs(tag="red", limit=5)
    assert [job.id async for job in red] == ids[:1:-1]
    assert [record.payload async for record in red.records()] == [[6], [5], [4], [3], [2]]
    async for job in red:
        await job.acancel()
    assert (await any_app.jobs(tag="red", state="cancelled").acount()).jobs == 5


@pytest.mark.parametrize("limit", [1, 3, 6, 7, 8])
def test_a_limit_is_of_the_newest(app: Windlass, limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "PAGE", 3)
    ids = made(app)
    newest = app.jobs(tag="red", limit=limit)
    assert [job.id for job in newest] == ids[::-1][:limit]
    assert [record.id for record in newest.records()] == ids[::-1][:limit]
    assert newest.count().jobs == min(limit, 7)
    assert not newest.count().more
    assert newest.count(cap=1).more is (limit > 1)
    assert repr(newest) == f"<Jobs tag=red limit={limit}>"
    assert newest.cancel() == {"cancelled": min(limit, 7)}
    assert [job.status() for job in app.jobs(tag="red")].count(State.CANCELLED) == min(limit, 7)


@pytest.mark.parametrize("limit", [0, -1, 1.5, True, "5"])
def test_a_limit_that_is_none_is_refused(app: Windlass, limit: Any) -> None:
    with pytest.raises(InvalidOption, match="whole number from 1"):
        app.jobs(limit=limit)


@pytest.mark.parametrize("name", ["text", "tag", "error"])
def test_a_text_that_is_none_is_refused(app: Windlass, name: str) -> None:
    with pytest.raises(InvalidOption, match=f"{name}: 5 holds what no job can hold; use text"):
        app.jobs(**{name: 5})  # type: ignore[arg-type]


def test_a_handle_knows_its_task_and_a_record_all_of_the_job(any_app: Windlass) -> None:
    @any_app.task(name="pair")
    def pair(n: int) -> tuple[int, int]:
        return n, n

    @any_app.task(name="fails", retry=Retry(1))
    def fails() -> None:
        raise ValueError("no")

    pair.enqueue(3)
    fails.enqueue()
    any_app.run_until_idle()
    [job] = any_app.jobs(state="succeeded")
    assert (job.task, job.result()) == ("pair", (3, 3)), "as its annotation says, not as JSON has it"
    [dead] = any_app.jobs(state="dead", error="ValueError").records()
    assert (dead.task, dead.state, dead.errors[0].message) == ("fails", State.DEAD, "no")


async def test_a_job_that_moves_while_the_loop_runs_is_met_once(
    any_app: Windlass, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A scheduled job that is offered now enters its lane, which may lie behind the cursor."""
    monkeypatch.setattr(listing, "PAGE", 2)
    ids = [(await any_app.named("t").using(delay="1h").aenqueue(n)).id for n in range(6)]
    met = []
    async for job in any_app.jobs(task="t"):
        met.append(job.id)
        await job.aretry()
    assert sorted(met) == sorted(ids)


def test_a_filter_takes_a_task_or_a_queue_itself(app: Windlass) -> None:
    """It took names only, and said that `<Task mail.send>` is not one."""

    @app.task(name="mail.send", queue="mail")
    def send() -> None: ...

    send.enqueue()
    app.named("mail.send").using(queue="other").enqueue()
    app.named("other").using(queue="mail").enqueue()
    assert app.jobs(task=send).count().jobs == 2
    assert app.jobs(queue=app.queue("mail")).count().jobs == 2
    assert app.jobs(queue=app.queue("mail"), task=send).count().jobs == 1
    with pytest.raises(InvalidName, match="task name"):
        app.jobs(task=print)  # type: ignore[arg-type]
