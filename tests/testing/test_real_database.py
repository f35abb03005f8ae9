"""A test on a real database: transactions are real there, and so is the time."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from windlass import Context, Windlass
from windlass.errors import ConfigurationError, ResultTimeout

app = Windlass("sqlite:///:memory:")


@app.task
async def book(ctx: Context, amount: int) -> Any:
    async with ctx.transaction() as connection:
        if hasattr(connection, "fetch"):  # asyncpg
            await connection.execute("INSERT INTO account VALUES ($1)", amount)
        else:
            connection.execute("INSERT INTO account VALUES (?)", (amount,))
        ctx.result = amount
        if amount < 0:
            raise ValueError("nothing is booked")


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        dsn: str = request.getfixturevalue("pg_database")
        return dsn
    return f"sqlite:///{tmp_path.as_posix()}/jobs.db"


def execute(database: str, statement: str) -> list[Any]:
    if database.startswith("sqlite"):
        import apsw

        with apsw.Connection(database.removeprefix("sqlite:///")) as connection:
            return list(connection.execute(statement))
    import psycopg

    with psycopg.connect(database, autocommit=True) as server:
        found = server.execute(statement.encode())
        return found.fetchall() if found.description else []


def test_a_transaction_of_a_handler_can_be_tested(database: str) -> None:
    """Memory has none: `ctx.transaction()` could not be tested at all."""
    execute(database, "CREATE TABLE account (amount int)")
    with app.testing(database=database) as kit:
        job = book.enqueue(5)
        lost = book.using(max_attempts=1).enqueue(-5)
        ran = kit.drain(raises=False)
        assert [each.id for each in ran.succeeded] == [job.id]
        assert [each.id for each in ran.dead] == [lost.id]
        assert job.result() == 5
        with pytest.raises(ConfigurationError, match="cannot be moved"):
            kit.drain(advance=True)
    assert execute(database, "SELECT amount FROM account") == [(5,)]


GREETED: list[int] = []


@app.task
async def greet(ctx: Context) -> str:
    await ctx.step("greet", GREETED.append, ctx.id)
    return await ctx.wait("name", type=str)


async def test_w2_an_async_block_holds_up_no_loop_and_keeps_steps(
    database: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Its own calls were told of as if the test had to await them."""
    GREETED.clear()
    async with app.testing(database=database) as kit:
        job = await greet.aenqueue()
        await kit.adrain()
        assert await job.asignal("name", "Ada") == "delivered"
        await kit.adrain()
        assert await job.aresult() == "Ada"
        assert [job.id] == GREETED
        with pytest.raises(ConfigurationError, match="in a testing block already"):
            async with app.testing(database=database):
                pass
    async with app.testing(database=database):
        assert await job.astatus() == "succeeded"
    assert caplog.text == ""


def test_memory_says_how_to_test_a_transaction() -> None:
    with app.testing() as kit:
        book.enqueue(5)
        with pytest.raises(ConfigurationError, match=r"app\.testing\(database=URL\)"):
            kit.drain()


limited = Windlass("sqlite:///:memory:")
budget = limited.budget("upstream", rate="1/h", burst=1)


@limited.task
async def call() -> None:
    await budget.aacquire()


@limited.task
def wait_for_later() -> None:
    call.using(delay="1h").enqueue().result()


def test_a_handler_that_waits_for_tokens_is_told_that_the_clock_stands_still() -> None:
    """It slept for ever: the next token comes in an hour of a clock that nobody moves."""
    with limited.testing() as kit:
        call.enqueue()
        kit.drain()
        call.enqueue()
        with pytest.raises(AssertionError, match=r"budget upstream has its next 1 token in .* stands still"):
            kit.drain()


def test_a_handler_that_waits_for_a_job_is_told_that_the_clock_stands_still() -> None:
    with limited.testing() as kit:
        wait_for_later.enqueue()
        with pytest.raises(AssertionError, match=r"job \d+ of task .*call is scheduled, and the clock"):
            kit.drain()


def test_who_moves_the_clock_may_wait_for_it() -> None:
    async def work() -> None:
        with limited.testing() as kit:
            await budget.aacquire()
            waiting = asyncio.create_task(budget.aacquire())
            await asyncio.sleep(0)
            kit.clock.advance("1h")
            await waiting
            job = await call.using(delay="1h").aenqueue()
            with pytest.raises(ResultTimeout, match=r"did not finish within 0\.1"):
                await job.aresult(timeout=0.1)

    asyncio.run(work())
