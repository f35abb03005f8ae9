"""Results handed on: a job gets what the jobs it comes after have returned [W4]."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from windlass import Context, Retry, Windlass, result_of, results_of
from windlass.errors import InvalidArguments, InvalidOption, InvalidPayload, JobFailed
from windlass.store.records import DEFAULT_OPTIONS
from windlass.worker.handlers.result_arguments import AT_ONCE


@pytest.fixture(params=["sqlite", "postgres"])
def app(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Windlass]:
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path / 'jobs.db'}"
    else:
        url = request.getfixturevalue("pg_dsn")
    with Windlass(url) as made:
        yield made


async def test_results_come_in_the_order_named_and_typed(app: Windlass) -> None:
    """[W4] Whatever order the jobs ended in; sync, async and by name."""

    @app.task(name="square")
    def square(n: int) -> int:
        return n * n

    @app.task(name="total")
    async def total(parts: list[int], *, extra: float, first: int = 0) -> dict[str, float]:
        return {"total": sum(parts) + extra, "last": parts[-1], "first": first}

    @app.task(name="plain")
    def plain(parts: list[int]) -> list[int]:
        return parts

    jobs = [await square.aenqueue(n) for n in (3, 1, 2)]
    job = await total.aenqueue(results_of(jobs), extra=0.5, first=result_of(jobs[0]))
    other = await plain.aenqueue(results_of(jobs[::-1]))
    named = await app.named("plain").aenqueue(results_of(jobs))
    async with app.worker():
        assert await job.aresult(20) == {"total": 14.5, "last": 4, "first": 9}
        assert await other.aresult(20) == [4, 1, 9]
        assert await named.aresult(20) == [9, 1, 4]
    stored = await app._store_handle().acall(lambda store: store.job(job.id))
    assert stored is not None
    assert "9" not in stored.payload


def test_what_is_no_job_or_inside_a_value_is_refused_with_what_to_write(app: Windlass) -> None:
    """[W4]"""

    @app.task(name="total")
    def total(parts: list[int]) -> int:
        return sum(parts)

    job = app.job(7)
    for wrong in (7, [job], "7"):
        with pytest.raises(InvalidArguments, match=r"result_of: .* is not a job; pass what enqueue returned"):
            result_of(wrong)  # type: ignore[call-overload]
    with pytest.raises(InvalidArguments, match="results_of: 7 is not a job"):
        results_of([job, 7])  # type: ignore[arg-type]
    with pytest.raises(
        InvalidPayload, match=r"result_of\(7\) is inside another value; pass it as an argument"
    ):
        total.enqueue([result_of(job)])


async def test_what_returned_nothing_or_ended_otherwise_gives_none(app: Windlass) -> None:
    """[W4] None where the annotation takes it; else the error says which job it was."""

    @app.task(name="nothing")
    def nothing() -> int | None:
        return None

    @app.task(name="fails", retry=Retry(1))
    def fails() -> int:
        raise ValueError("no")

    @app.task(name="loose")
    def loose(parts: list[int | None]) -> int:
        return len(parts) + 10 * parts.count(None)

    @app.task(name="strict", retry=Retry(1))
    def strict(parts: list[int]) -> int:
        return len(parts)

    a, b = await nothing.aenqueue(), await fails.aenqueue()
    good = await loose.using(otherwise="run").aenqueue(results_of([a, b]))
    bad = await strict.using(otherwise="run").aenqueue(results_of([b, a]))  # type: ignore[list-item]
    never = await strict.aenqueue(results_of([b]))
    async with app.worker():
        assert await good.aresult(20) == 22
        for job in (bad, never):
            with pytest.raises(Exception, match="dead"):
                await job.aresult(20)
    said = (await bad.arecord()).errors[-1].message
    assert f"job {a.id} returned nothing" in said
    assert f"job {b.id} is dead" in said
    assert "'parts' is a list of results" in said
    assert "which it comes after, is dead" in ((await never.arecord()).reason or "")


async def test_a_result_that_does_not_fit_is_named_with_its_job(app: Windlass) -> None:
    """[W4] Its type is found out by the run alone, where the task's code was not there before."""

    @app.task(name="one")
    def one() -> int:
        return 1

    @app.task(name="add", retry=Retry(1))
    def add(parts: list[int]) -> int:
        return sum(parts)

    first = await one.aenqueue()
    job = await add.aenqueue(result_of(first))  # type: ignore[arg-type]
    async with app.worker():
        with pytest.raises(JobFailed):
            await job.aresult(20)
    said = (await job.arecord()).errors[-1].message
    assert said == (
        f"task add: argument 'parts': Expected `array`, got `int`; 'parts' is the result of job {first.id}"
    )


async def test_a_result_that_is_gone_ends_the_job_dead_and_says_so(app: Windlass) -> None:
    """[W4] No retry would find it."""
    runs: list[int] = []

    @app.task(name="one")
    def one() -> int:
        return 1

    @app.task(name="add", retry=Retry(5, base="1s"))
    def add(parts: list[int]) -> int:
        runs.append(1)
        return sum(parts)

    first = await one.aenqueue()
    async with app.worker():
        assert await first.aresult(20) == 1
    job = await add.aenqueue(results_of([first]))
    await first.adelete()
    async with app.worker():
        with pytest.raises(Exception, match=f"result of job {first.id} is gone"):
            await job.aresult(20)
    assert runs == []
    assert (await job.arecord()).attempt == 1


def test_what_cannot_be_handed_on_is_refused_at_once(app: Windlass) -> None:
    """[W4] The other arguments are checked as always; a time of its own makes no sense."""

    @app.task(name="add")
    def add(parts: list[int], n: int = 0) -> int:
        return sum(parts) + n

    @app.task(name="many")
    def many(*parts: int) -> int:
        return sum(parts)

    first = add.enqueue([1])
    with pytest.raises(InvalidArguments, match="'n'"):
        add.enqueue(results_of([first]), n="x")  # type: ignore[arg-type]
    with pytest.raises(InvalidArguments, match="have a name"):
        many.enqueue(result_of(first))
    with pytest.raises(InvalidOption, match="delay"):
        add.using(delay=5).enqueue(results_of([first]))
    assert add._called(([1],), {}).options.results == DEFAULT_OPTIONS.results


async def test_chains_of_five_take_no_time_to_speak_of(app: Windlass) -> None:
    """[W4] Five links by event, each handing its result on. 0.2 s is the promise; a busy machine gets 2 s."""

    @app.task(name="link")
    async def link(n: int) -> int:
        return n + 1

    async with app.worker():
        await (await link.aenqueue(0)).aresult(20)

        best = 9.0
        for _ in range(5):
            began = time.monotonic()
            job = await link.aenqueue(0)
            for _ in range(4):
                job = await link.aenqueue(result_of(job))
            assert await job.aresult(20) == 5
            best = min(best, time.monotonic() - began)
    assert best < 2.0


async def test_the_results_of_a_group_come_in_the_order_in_which_its_jobs_were_added(app: Windlass) -> None:
    """[W4] Also those that are added while it runs; more than one page of them."""

    @app.task(name="square", queue="squares")
    async def square(n: int) -> int:
        return n * n

    @app.task(name="cube")
    def cube(n: int) -> int:
        return n**3

    @app.task(name="total")
    async def total(ctx: Context, parts: list[int], *, first: int) -> list[int]:
        if ctx.attempt == 1 and not await ctx.asaved():
            await ctx.asave("begun")
            await ctx.sleep("1.5s")
        return [len(parts), first, *parts[:3], *parts[-2:]]

    many = 2 * AT_ONCE + 7
    group = await app.aopen_group()
    first = await group.aenqueue(cube, 5)
    await group.aenqueue_many(square, [(n,) for n in range(many)])
    job = await group.aon_success(total, result_of(group), first=result_of(first))
    async with app.worker():
        await group.aenqueue(cube, 2)
        assert await group.aclose()
        assert await job.aresult(120) == [many + 2, 125, 125, 0, 1, (many - 1) ** 2, 8]
    assert [step.name for step in await job.asteps()] == ["#results", "sleep"]


async def test_a_job_of_a_group_that_failed_gives_none(app: Windlass) -> None:
    """[W4] Where the follower runs all the same; where None does not fit, the error names the jobs."""

    @app.task(name="maybe", retry=Retry(1))
    def maybe(n: int) -> int:
        if n % 2:
            raise ValueError("odd")
        return n

    @app.task(name="tolerant")
    def tolerant(parts: list[int | None]) -> list[int | None]:
        return parts

    @app.task(name="strict", retry=Retry(1))
    def strict(parts: list[int]) -> int:
        return sum(parts)

    async with await app.aopen_group() as group:
        ids = await group.aenqueue_many(maybe, [(n,) for n in range(60)])
        taken = await group.aon_end(tolerant, result_of(group))
        refused = await group.aon_failure(strict, result_of(group))
    async with app.worker():
        assert await taken.aresult(60) == [None if n % 2 else n for n in range(60)]
        with pytest.raises(JobFailed, match=rf"job {ids[1]} is dead; .*; and so on, 10 more") as told:
            await refused.aresult(60)
    assert str(ids[-1]) not in str(told.value)


async def test_a_group_that_is_gone_has_no_results(app: Windlass) -> None:
    """[W4] An empty list would be a lie."""

    @app.task(name="total")
    def total(parts: list[int]) -> int:
        return sum(parts)

    group = await app.aopen_group()
    job = await group.aon_end(total, result_of(group))
    await group.adelete()
    async with app.worker():
        with pytest.raises(JobFailed, match=f"the result of job {group.id} is gone"):
            await job.aresult(60)


def test_a_group_is_no_job_among_others(app: Windlass) -> None:
    """[W4] Would it be its list, or its counts?"""
    with app.open_group() as group, pytest.raises(InvalidArguments, match=r"are result_of\(group\)"):
        results_of([group])
