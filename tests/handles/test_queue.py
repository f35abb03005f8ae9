"""`app.queue(...)`, `app.queues()` and `app.task_settings(...)`: managing from code, on every store [K11]."""

import asyncio
import logging
import threading
from typing import Any

import pytest

from windlass import Queue, Windlass
from windlass.errors import InvalidName, QueueNotEmpty, QueueNotFound
from windlass.store.records import Depth, TaskRecord


def test_k11_pause_and_resume(any_app: Windlass) -> None:
    """[K2] A paused queue gives out nothing."""
    any_app.named("windlass.echo").using(queue="mail").enqueue(1)
    mail = any_app.queue("mail")
    assert mail.pause().paused
    assert mail.settings().paused
    assert any_app.run_until_idle().succeeded == 0
    assert mail.depth().ready == 1
    assert not mail.resume().paused
    assert any_app.run_until_idle().succeeded == 1
    assert mail.depth().ready == 0


def test_k11_a_mistyped_name_becomes_no_queue(any_app: Windlass) -> None:
    any_app.queue("mail").ensure()
    for act in (Queue.pause, Queue.resume, Queue.settings):
        with pytest.raises(QueueNotFound, match=r"no queue 'mial'; there are mail; .*ensure\(\)"):
            act(any_app.queue("mial"))
    assert [queue.name for queue in any_app.queues()] == ["mail"]
    assert any_app.queue("mial").depth() == Depth()
    assert any_app.queue("mial").wait_until_empty("1s") == Depth()
    with pytest.raises(InvalidName):
        any_app.queue("Mail!")


def test_k11_set_takes_what_people_write(any_app: Windlass) -> None:
    """Times, rates and numbers as on the command line; None brings the default back."""
    mail = any_app.queue("mail")
    record = mail.set(cool_base="1m30s", rate_max="600/m", concurrency=4, backoff=False)
    assert (record.cool_base, record.rate_max, record.concurrency, record.backoff) == (90.0, 10.0, 4, False)
    assert mail.settings() == record
    record = mail.set(cool_base=None, concurrency=None)
    assert (record.cool_base, record.rate_max, record.concurrency) == (60.0, 10.0, None)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"colour": 1}, "no setting called colour"),
        ({"concurrency": 0}, "concurrency of queue 'mail' cannot be 0"),
        ({"concurrency": 3, "cool_base": "soon"}, "cool_base of queue 'mail': 'soon' is not a span of time"),
        ({"cool_base": True}, "cool_base of queue 'mail'"),
        ({"paused": True}, r"pause\(\)"),
        ({"rate_min": 9, "rate_max": 3}, "rate_min"),
    ],
)
def test_k11_what_makes_no_sense_is_refused(
    any_app: Windlass, settings: dict[str, Any], message: str
) -> None:
    """Nothing is changed then, and a new queue is not declared."""
    mail = any_app.queue("mail")
    for change in (mail.set, mail.ensure):
        with pytest.raises(ValueError, match=message):
            change(**settings)
    assert any_app.queues() == []


def test_k11_ensure_declares_and_what_is_stored_wins(
    any_app: Windlass, caplog: pytest.LogCaptureFixture
) -> None:
    mail = any_app.queue("mail")
    caplog.set_level(logging.INFO, "windlass.queues")
    first = mail.ensure(concurrency=4, cool_base="30s")
    assert (first.concurrency, first.cool_base) == (4, 30.0)
    mail.set(concurrency=2)
    mail.pause()
    again = mail.ensure(concurrency=4, cool_base="30s", max_depth=100)
    assert (again.concurrency, again.cool_base, again.max_depth, again.paused) == (2, 30.0, 100, True)
    assert mail.settings() == again
    said = [each.getMessage() for each in caplog.records if each.name == "windlass.queues"]
    assert said == ["queue mail has concurrency 2, as stored, not 4"]


def test_k11_ensure_reaches_a_queue_that_an_enqueue_has_declared(any_app: Windlass) -> None:
    any_app.named("windlass.echo").using(queue="mail").enqueue(1)
    assert any_app.queue("mail").ensure(concurrency=4).concurrency == 4


def test_k11_it_waits_for_workers(any_app: Windlass) -> None:
    """It returns when the last job has ended, and says what is left for later."""
    go, started = threading.Event(), threading.Event()

    @any_app.task(name="waits", queue="mail")
    def waits() -> None:
        started.set()
        assert go.wait(30)

    waits.enqueue_many([(), ()])
    waits.using(delay="1h").enqueue()
    mail = any_app.queue("mail")
    with any_app.worker({"mail": 1}):
        assert started.wait(30)
        with pytest.raises(QueueNotEmpty, match=r"queue mail still has 1 ready and 1 running after 50ms$"):
            mail.wait_until_empty("50ms")
        go.set()
        left = mail.wait_until_empty("30s")
    assert left.counts == (0, 0, 1, 0, 0)


def test_k11_it_says_that_the_queue_is_paused(any_app: Windlass) -> None:
    any_app.named("windlass.echo").using(queue="mail").enqueue(1)
    mail = any_app.queue("mail")
    mail.pause()
    with pytest.raises(QueueNotEmpty, match="1 ready and 0 running after 0; it is paused"):
        mail.wait_until_empty(0)


async def test_k11_every_method_can_be_awaited(any_app: Windlass) -> None:
    mail = any_app.queue("mail")
    assert (await mail.aensure(concurrency=4)).concurrency == 4
    assert (await mail.aset(concurrency=2)).concurrency == 2
    assert (await mail.apause()).paused
    assert (await mail.asettings()).paused
    await any_app.named("windlass.echo").using(queue="mail").aenqueue(1)
    assert (await mail.adepth()).ready == 1
    assert not (await mail.aresume()).paused
    emptied = asyncio.ensure_future(mail.await_until_empty("30s"))
    async with any_app.worker(["mail"]):
        assert (await emptied).counts == (0, 0, 0, 0, 0)
    assert [queue.name for queue in await any_app.aqueues()] == ["mail"]
    assert repr(mail) == "<Queue mail>"


def test_k11_settings_of_a_task(any_app: Windlass) -> None:
    """[P6] Its code need not be here; None goes back to what that says."""
    load = any_app.task_settings("shop.load")
    assert load.record() == TaskRecord(name="shop.load")
    assert load.set(batch=200, batch_timeout="2m") == load.record()
    assert (load.record().batch, load.record().batch_timeout) == (200, 120.0)
    assert load.set(batch=None) == TaskRecord(name="shop.load", batch_timeout=120.0)
    assert load.set(chunk="128MiB").chunk == 128 * 1024 * 1024  # [P13]
    with pytest.raises(ValueError, match=r"chunk of task 'shop.load'"):
        load.set(chunk="a lot")
    with pytest.raises(ValueError, match="no setting called bach"):
        load.set(bach=3)
    with pytest.raises(InvalidName):
        any_app.task_settings("Load!")
    assert repr(load) == "<TaskSettings shop.load>"


async def test_k11_settings_of_a_task_can_be_awaited(any_app: Windlass) -> None:
    load = any_app.task_settings("shop.load")
    await load.aset(parallel=3)
    assert (await load.arecord()).parallel == 3


def test_k11_in_a_test_it_manages_the_test_s_own_store(
    app: Windlass, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And a wait that no worker can end fails, since the clock of the test stands still."""
    monkeypatch.setattr("windlass.handles.queue.UNTIL_RUN", 0.1)
    with app.testing():
        app.queue("mail").ensure()
        app.named("windlass.echo").using(queue="mail").enqueue(1)
        with pytest.raises(AssertionError, match="jobs of queue mail are ready and nobody runs them"):
            app.queue("mail").wait_until_empty("30s")
    assert app.queues() == []


def test_a_bound_holds_for_what_is_declared_too(any_app: Windlass) -> None:
    queue = any_app.queue("mail")
    for change in (queue.set, queue.ensure):
        with pytest.raises(ValueError, match="safety_bound"):
            change(safety_bound=2e9)
