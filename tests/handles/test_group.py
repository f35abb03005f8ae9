"""Groups of jobs of any tasks: open to more, with callbacks, counted and cancelled together [W4]."""

from typing import Any

import pytest

from windlass import Context, Job, Retry, Windlass, result_of, results_of
from windlass.errors import (
    ConfigurationError,
    GroupClosed,
    InvalidArguments,
    InvalidName,
    JobFailed,
    JobNotFound,
)

RAN: list[str] = []


@pytest.fixture(autouse=True)
def _fresh() -> None:
    RAN.clear()


def tasks(app: Windlass) -> None:
    @app.task(name="load")
    def load(path: str) -> int:
        RAN.append(f"load {path}")
        return len(path)

    @app.task(name="resize", queue="images")
    async def resize(n: int) -> None:
        RAN.append(f"resize {n}")

    @app.task(name="fail", retry=Retry(1))
    def fail() -> None:
        raise ValueError("no")

    @app.task(name="note")
    def note(word: str) -> None:
        RAN.append(word)


def test_what_is_no_task_is_told_what_to_pass(any_app: Windlass) -> None:
    tasks(any_app)
    job = any_app.named("load").enqueue("a.csv")
    group = any_app.open_group("nightly")
    for add in (group.enqueue, group.on_success, group.on_end):
        with pytest.raises(ConfigurationError, match="enqueued already"):
            add(job)  # type: ignore[arg-type]
        with pytest.raises(ConfigurationError, match="is not a task: pass a function"):
            add("load")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="is not a task"):
        group.enqueue_many(len, [("a",)])  # type: ignore[call-overload]
    with pytest.raises(InvalidArguments, match=r"the result of one is result_of\(job\)"):
        results_of(job)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["", "x" * 201, 7, None])
def test_a_group_has_a_name_that_can_be_shown(any_app: Windlass, name: Any) -> None:
    with pytest.raises(InvalidName, match="use a text of 1 to 200 characters"):
        any_app.open_group(name)


@pytest.mark.parametrize("id", ["abc", "", "1.5", 1.5, None, True, -1, 0, 2**70, "1" * 40, "¹"])
def test_what_is_no_id_is_the_id_of_no_job(any_app: Windlass, id: Any) -> None:
    """A web page answers with 404, as for a job that is gone; and no number is rounded."""
    tasks(any_app)
    for handle in (any_app.job, any_app.group, any_app.parent, any_app.named("load").job):
        with pytest.raises(JobNotFound, match="is not the id of a job"):
            handle(id)
    with pytest.raises(JobNotFound, match="is not the id of a job"):
        any_app.signal(id, "yes")


def test_jobs_of_several_tasks_and_what_comes_after_all_of_them(any_app: Windlass) -> None:
    tasks(any_app)
    load, resize, note = (any_app.named(name) for name in ("load", "resize", "note"))
    with any_app.open_group("nightly") as group:
        job = group.enqueue(load, "a.csv")
        group.enqueue_many(resize, [(1,), (2,)])
        done, cleaned = group.on_success(note, "done"), group.on_end(note, "cleaned")
        warned = group.on_failure(note, "warned")
        any_app.run_until_idle()
        assert group.status() == "scheduled"
        assert group.counts() == {"succeeded": 3}
        assert not {"done", "cleaned"} & set(RAN)
    any_app.run_until_idle(wait=5)
    assert group.result() == {"succeeded": 3}
    assert sorted(RAN) == ["cleaned", "done", "load a.csv", "resize 1", "resize 2"]
    assert [each.status() for each in (done, cleaned, warned)] == ["succeeded", "succeeded", "cancelled"]
    assert warned.record().reason == "all jobs that it comes after have succeeded"
    assert job.result() == 5
    assert job.id in [each.id for each in group.jobs()]
    assert any_app.group(group.id).counts() == {"succeeded": 3}
    assert repr(group) == f"<Group {group.id}>"


def test_the_counts_of_what_is_no_group_are_refused(any_app: Windlass) -> None:
    """[W4] None of its jobs would read as: none is left."""
    tasks(any_app)
    for id in (987654321, any_app.named("load").enqueue("a").id):
        with pytest.raises(JobNotFound, match=f"there is no group {id}: no job of this id ends one"):
            any_app.group(id).counts()
    assert any_app.open_group("empty").counts() == {}


def test_the_jobs_of_a_group_whose_end_was_deleted_are_cancelled_by_its_block(any_app: Windlass) -> None:
    """[W4] And what the block raised is what comes out of it, also where nothing is left of the group."""
    tasks(any_app)
    jobs: list[Job[Any]] = []

    def broken(load: int) -> None:
        with any_app.open_group("nightly") as group:
            jobs.extend(group.enqueue(any_app.named("load"), "a") for _ in range(load))
            group.delete()
            raise ZeroDivisionError

    for load in (1, 0):
        with pytest.raises(ZeroDivisionError):
            broken(load)
    assert [job.status() for job in jobs] == ["cancelled"]
    with any_app.open_group("again") as group:
        group.enqueue(any_app.named("load"), "b")
        group.delete()
    assert group.cancel_jobs() == 1


def test_a_group_of_which_a_job_dies_is_dead_and_says_so(any_app: Windlass) -> None:
    tasks(any_app)
    load, fail, note = (any_app.named(name) for name in ("load", "fail", "note"))
    with any_app.open_group("nightly") as group:
        group.enqueue(load, "a")
        group.enqueue(fail.using(max_attempts=1))
        done, cleaned = group.on_success(note, "done"), group.on_end(note, "cleaned")
        warned = group.on_failure(note, "warned")
    any_app.run_until_idle(wait=5)
    assert group.status() == "dead"
    assert group.record().reason == "1 of the 2 jobs of group 'nightly' did not succeed"
    with pytest.raises(JobFailed, match="1 of the 2 jobs"):
        group.result()
    assert [each.status() for each in (done, cleaned, warned)] == ["cancelled", "succeeded", "succeeded"]
    assert done.record().reason == f"job {group.id}, which it comes after, is dead"


async def test_a_job_adds_to_its_own_group_while_it_runs(app: Windlass) -> None:
    @app.task(name="walk")
    async def walk(ctx: Context, group: int, depth: int) -> None:
        RAN.append(f"walk {depth}")
        if depth:
            await app.group(group).aenqueue(walk, group, depth - 1)
        elif not await app.group(group).aclose():
            raise AssertionError

    group = await app.aopen_group()
    await group.aenqueue(walk, group.id, 3)
    async with app.worker():
        assert await group.aresult(20) == {"succeeded": 4}
    assert RAN == ["walk 3", "walk 2", "walk 1", "walk 0"]
    assert await group.acounts() == {"succeeded": 4}
    with pytest.raises(GroupClosed):
        await group.aenqueue(walk, group.id, 0)
    with pytest.raises(JobNotFound):
        await app.group(99).aenqueue(walk, 99, 0)


async def test_cancelled_it_takes_its_jobs_along(app: Windlass) -> None:
    tasks(app)
    group = await app.aopen_group()
    load = app.named("load")
    first = await group.aenqueue(load, "a")
    done = await group.aon_success(app.named("note"), "done")
    cleaned = await group.aon_end(app.named("note"), "cleaned")
    warned = await group.aon_failure(app.named("note"), "warned")
    await app.arun_until_idle()
    (later,) = await group.aenqueue_many(load.using(delay="1h"), [("b",)])
    assert await group.acancel_jobs() == 1
    await app.arun_until_idle(wait=5)
    assert await first.astatus() == "succeeded"
    assert await app.job(later).astatus() == "cancelled"
    assert [await job.astatus() for job in (group, done, cleaned, warned)] == [
        "cancelled", "cancelled", "succeeded", "succeeded",
    ]  # fmt: skip
    assert [job.id for job in await group.ajobs(after=first.id)] == [later]


async def test_a_block_that_raises_cancels_its_group(app: Windlass) -> None:
    tasks(app)
    group, other = await app.aopen_group(), await app.aopen_group()
    await group.aenqueue(app.named("load"), "a")
    with pytest.raises(ZeroDivisionError):
        async with group:
            _ = 1 / 0
    with pytest.raises(ZeroDivisionError), other:
        _ = 1 / 0
    await app.arun_until_idle()
    assert (await group.astatus(), other.status(), RAN) == ("cancelled", "cancelled", [])


def test_a_group_takes_no_job_that_comes_after_it(any_app: Windlass) -> None:
    """Each would wait for the other, for ever."""
    tasks(any_app)
    note = any_app.named("note")
    with any_app.open_group() as group:
        for wrong in (note.using(after=[group]), note.using(after=[group], otherwise="run")):
            with pytest.raises(ConfigurationError, match="each would wait for the other"):
                group.enqueue(wrong, "late")
        with pytest.raises(ConfigurationError, match="each would wait for the other"):
            group.enqueue(note, result_of(group))
    any_app.run_until_idle()
    assert group.result() == {}


def test_a_group_takes_no_connection_and_is_not_replayed(any_app: Windlass) -> None:
    tasks(any_app)
    with any_app.open_group() as group, pytest.raises(ConfigurationError, match="transaction of its own"):
        group.enqueue(any_app.named("load").using(connection=object()), "a")
    any_app.run_until_idle()
    with pytest.raises(Exception, match="ends a group"):
        group.replay()


def test_w4_a_group_of_deleted_jobs_has_not_succeeded(any_app: Windlass) -> None:
    """As after any job that is deleted before it has succeeded [P12]."""
    tasks(any_app)
    load, fail, note = (any_app.named(name) for name in ("load", "fail", "note"))
    with any_app.open_group("nightly") as group:
        group.enqueue(load, "a.csv")
        jobs = [group.enqueue(fail) for _ in range(3)]
        success = group.on_success(note, "success")
        group.on_end(note, "end")
    for job in jobs:
        assert job.delete() == "deleted"
    any_app.run_until_idle(wait="5s")
    assert group.counts() == {"succeeded": 1, "deleted": 3}
    with pytest.raises(JobFailed, match="3 of the 4 jobs of group 'nightly' did not succeed"):
        group.result()
    assert success.status() == "cancelled"
    assert RAN == ["load a.csv", "end"]
