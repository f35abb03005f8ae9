"""Every way to make a job [E1], on every store, and the ways a job answers."""

import uuid
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import msgspec
import pytest

from windlass import State, Windlass
from windlass.errors import (
    AlreadyEnqueued,
    InvalidArguments,
    JobFailed,
    JobNotFound,
    ResultInvalid,
    ResultTimeout,
)


@dataclass
class Order:
    """A dataclass argument and result."""

    number: int
    total: Decimal


class Customer(msgspec.Struct):
    """A msgspec argument."""

    name: str
    since: datetime


def test_e1_one_job_sync(any_app: Windlass) -> None:
    @any_app.task
    def double(value: int) -> int:
        return value * 2

    job = double.enqueue(21)
    assert job.receipt == "enqueued"
    assert job.status() == State.READY
    assert any_app.run_until_idle().succeeded == 1
    assert job.status() == State.SUCCEEDED
    assert job.result(timeout="5s") == 42


async def test_e1_one_job_async(any_app: Windlass) -> None:
    @any_app.task
    async def double(value: int) -> int:
        return value * 2

    job = await double.aenqueue(value=21)
    assert await job.astatus() == State.READY
    assert (await any_app.arun_until_idle()).succeeded == 1
    assert await job.aresult(timeout="5s") == 42
    assert (await job.arecord()).task == double.name


def test_e1_many_jobs_in_one_call_return_ids_in_order(any_app: Windlass) -> None:
    @any_app.task
    def join(left: str, right: str = "!") -> str:
        return left + right

    calls: list[tuple[Any, ...] | dict[str, str]] = [
        ("a", "b"), ("c",), {"left": "d", "right": "e"}, {"left": "f"},
    ]  # fmt: skip
    ids = join.enqueue_many(calls)
    assert any_app.run_until_idle().succeeded == 4
    assert [join.job(id).result() for id in ids] == ["ab", "c!", "de", "f!"]
    assert join.enqueue_many([]) == []


async def test_e1_many_jobs_async(any_app: Windlass) -> None:
    ids = await any_app.named("somewhere.else").aenqueue_many([(number,) for number in range(2500)])
    assert len(set(ids)) == 2500
    assert (await any_app.job(ids[7]).arecord()).payload == [7]


def test_e1_by_name_without_the_code(any_app: Windlass) -> None:
    plain = any_app.enqueue("mail.send", "a@b.c", template="welcome")
    named = any_app.named("mail.send").using(queue="mail", priority="high").enqueue(to="a@b.c")
    bare = any_app.enqueue("mail.tick")
    assert plain.record().payload == {"*": ["a@b.c"], "template": "welcome"}
    assert named.record().payload == {"to": "a@b.c"}
    assert named.record().queue == "mail"
    assert bare.record().payload == {}


async def test_e1_by_name_reaches_the_code_elsewhere(any_app: Windlass) -> None:
    job = await any_app.aenqueue("mail.send", "a@b.c", template="welcome")

    @any_app.task(name="mail.send")
    async def send(to: str, template: str) -> str:
        return f"{to} {template}"

    await any_app.arun_until_idle()
    assert await job.aresult() == "a@b.c welcome"


def test_e3_by_name_is_checked_where_the_code_is_here(app: Windlass) -> None:
    @app.task(name="mail.send")
    def send(to: str) -> None: ...

    with pytest.raises(InvalidArguments, match="'to'"):
        app.enqueue("mail.send", 5)


def test_e3_an_option_among_the_arguments_is_told_where_it_goes(app: Windlass) -> None:
    @app.task(name="mail.send")
    def send(to: str, queue: str = "x") -> None: ...

    with pytest.raises(InvalidArguments, match=r"; delay is an option .*send\.using\(delay='5s'\)\.enqueue"):
        send.enqueue("a", delay="5s")  # type: ignore[call-arg]
    with pytest.raises(InvalidArguments, match=r"delay, tags are options .*\(delay=5, tags=…\)\.enqueue"):
        app.enqueue("mail.send", "a", delay=5, tags=["x"])
    with pytest.raises(InvalidArguments) as other:
        send.enqueue("a", queue="y", colour="red")  # type: ignore[call-arg]
    assert "using" not in str(other.value)
    assert send.enqueue("a", queue="y").record().payload == {"to": "a", "queue": "y"}


@pytest.mark.parametrize("name", ["delay", "apply_async", "send", "send_with_options", "defer"])
def test_what_other_libraries_call_enqueue_is_told_what_to_write(app: Windlass, name: str) -> None:
    @app.task
    def add(number: int) -> None: ...

    wanted = rf"'{name}'; .* add\.enqueue\(…\), with options add\.using\(delay='5s'\)\.enqueue"
    with pytest.raises(AttributeError, match=wanted):
        getattr(add.using(priority="high"), name)
    with pytest.raises(AttributeError, match=r"task\.enqueue\(…\)"):
        getattr(app.named("far.away"), name)
    with pytest.raises(AttributeError, match=r"no attribute 'colour'$"):
        add.colour  # type: ignore[attr-defined] # noqa: B018
    assert not hasattr(add, name)


def test_calling_a_task_runs_it_inline(app: Windlass) -> None:
    @app.task
    def double(value: int) -> int:
        """Twice as much."""
        return value * 2

    assert double(4) == 8
    assert double.__doc__ == "Twice as much."
    assert double.__name__ == "double"


async def test_awaiting_an_async_task_runs_it_inline(app: Windlass) -> None:
    @app.task(queue="numbers")
    async def double(value: int) -> int:
        return value * 2

    assert await double(4) == 8


def test_rich_arguments_and_results_keep_their_types(any_app: Windlass) -> None:
    @any_app.task
    def handle(order: Order, customer: Customer, id: uuid.UUID, wait: timedelta, raw: bytes) -> Order:
        assert isinstance(order, Order)
        assert isinstance(customer, Customer)
        assert isinstance(customer.since, datetime)
        assert (id, wait, raw) == (uuid.UUID(int=5), timedelta(minutes=1), b"\x00\xff")
        return order

    job = handle.enqueue(
        Order(7, Decimal("1.10")),
        Customer("Ada", datetime(2024, 5, 1, tzinfo=UTC)),
        uuid.UUID(int=5),
        wait=timedelta(minutes=1),
        raw=b"\x00\xff",
    )
    assert any_app.run_until_idle().succeeded == 1
    assert job.result() == Order(7, Decimal("1.10"))


def test_e7_the_same_idempotency_key_yields_one_job(any_app: Windlass) -> None:
    send = any_app.named("mail.send").using(idempotency_key="order-7")
    first, second = send.enqueue(1), send.enqueue(1)
    assert (first.receipt, second.receipt) == ("enqueued", "repeated")
    assert first.id == second.id
    many = any_app.named("mail.send").using(idempotency_key="batch-1")
    assert many.enqueue_many([(1,), (2,)]) == many.enqueue_many([(1,), (2,)])
    assert any_app._store_handle().call(lambda store: store.depth())["default"].ready == 3


def test_e6_policies_of_a_unique_key(any_app: Windlass) -> None:
    sync = any_app.named("repo.sync")
    first = sync.using(unique="repo-1").enqueue(1)
    assert sync.using(unique="repo-1").enqueue(2).receipt == "skipped"
    replaced = sync.using(unique="repo-1", on_conflict="replace").enqueue(3)
    assert replaced.receipt == "replaced"
    with pytest.raises(AlreadyEnqueued) as caught:
        sync.using(unique="repo-1", on_conflict="reject").enqueue(4)
    assert caught.value.job == replaced.id
    assert first.id != replaced.id


def test_o8_results_are_awaited_with_a_timeout(any_app: Windlass) -> None:
    job = any_app.enqueue("windlass.echo", {"a": [1, None]})
    with pytest.raises(ResultTimeout):
        job.result(timeout="10ms")
    any_app.run_until_idle()
    assert job.result(timeout="5s") == {"a": [1, None]}


def test_o8_a_job_that_ended_otherwise_says_so(any_app: Windlass) -> None:
    job = any_app.enqueue("windlass.echo")
    assert job.cancel() == "cancelled"
    assert job.cancel() == "finished"
    with pytest.raises(JobFailed, match=r"windlass\.echo ended cancelled"):
        job.result(timeout=5)


def test_o8_a_result_that_is_not_what_was_promised_says_so(any_app: Windlass) -> None:
    """[O8] It is kept all the same."""

    @any_app.task(name="counts")
    def counts() -> int:
        return "many"  # type: ignore[return-value]

    job = counts.enqueue()
    any_app.run_until_idle()
    with pytest.raises(ResultInvalid, match=rf"job {job.id} of task counts succeeded.* `int`, got `str`"):
        job.result(timeout="5s")
    assert job.record().result == "many"


async def test_o5_o6_a_handle_manages_its_job(any_app: Windlass) -> None:
    later = any_app.named("windlass.echo").using(delay="1h")
    one, two = await later.aenqueue(1), await later.aenqueue(2)
    assert one.receipt == "scheduled"
    assert await one.aretry() == "retried"
    assert await one.astatus() == State.READY
    assert await two.acancel() == "cancelled"
    assert await two.adelete() == "deleted"
    with pytest.raises(JobNotFound):
        await two.astatus()
    assert await two.acancel() == "not_found"


def test_ids_are_ints_in_python_and_strings_elsewhere(app: Windlass) -> None:
    job = app.enqueue("windlass.echo", 1)
    assert isinstance(job.id, int)
    assert str(job) == str(job.id)
    assert app.job(str(job)).status() == State.READY
    assert repr(job) == f"<Job {job.id} of windlass.echo>"


def test_k9_echo_is_built_in(any_app: Windlass) -> None:
    job = any_app.enqueue("windlass.echo", "hello")
    assert any_app.run_until_idle().succeeded == 1
    assert job.result() == "hello"
