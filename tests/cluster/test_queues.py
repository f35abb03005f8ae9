"""Sizes of queues when a worker starts: flags seed, what is stored wins [K1]."""

import shlex

import pytest
from click.testing import CliRunner

from tests.worker.line import Line
from windlass import Windlass
from windlass.cluster.queues import seed
from windlass.settings import read_queues


async def sizes(line: Line) -> dict[str, int | None]:
    return {queue.name: queue.max_workers for queue in await line.queues()}


async def test_k1_a_new_queue_gets_what_the_flag_says(line: Line, caplog: pytest.LogCaptureFixture) -> None:
    """[K1] And one without a size gets it from the first worker that names one."""
    await line.open()
    await seed(line.as_store, {"mail": 8, "imports": None})
    assert await sizes(line) == {"mail": 8, "imports": None}
    await seed(line.as_store, {"imports": 3})
    assert await sizes(line) == {"mail": 8, "imports": 3}
    assert caplog.text == ""


async def test_k1_what_is_stored_wins_and_the_worker_says_how_to_change_it(
    line: Line, caplog: pytest.LogCaptureFixture
) -> None:
    """[K1] Also after a restart; naming no size is no wish."""
    await line.open()
    await seed(line.as_store, {"mail": 8})
    await line.set_queue("mail", {"max_workers": 2})
    await seed(line.as_store, {"mail": None})
    await seed(line.as_store, {"mail": 2})
    assert caplog.text == ""
    await seed(line.as_store, {"mail": 8})
    assert await sizes(line) == {"mail": 2}
    assert "windlass queue set mail --max-workers 8" in caplog.text
    assert "2 slots over the whole cluster, as stored, not 8" in caplog.text


async def test_k1_a_new_queue_that_is_like_a_known_one_is_told(
    line: Line, caplog: pytest.LogCaptureFixture
) -> None:
    """[K1] `-q mial=3` served a queue of that name for ever, with nothing to do."""
    await line.open()
    await seed(line.as_store, {"mail": 8, "imports": None})
    await seed(line.as_store, {"mial": 3, "reports": 1})
    assert [record.getMessage() for record in caplog.records] == ["queue mial is new; did you mean mail?"]


async def test_k10_slots_of_each_process_are_seeded_alike(
    line: Line, caplog: pytest.LogCaptureFixture
) -> None:
    """[K10] `-q mail=4/process`; what is stored wins here, too."""
    await line.open()
    await seed(line.as_store, read_queues("mail=4/process"))
    (mail,) = await line.queues()
    assert (mail.process_slots, mail.max_workers) == (4, None)
    await seed(line.as_store, read_queues(["mail=6/process"]))
    assert "4 slots in each process, as stored, not 6" in caplog.text
    assert "windlass queue set mail --process-slots 6" in caplog.text
    for wrong in ("mail=4/pod", "mail=x/process", "mail=0/process"):
        with pytest.raises(ValueError, match="write"):
            read_queues(wrong)


def test_k1_the_command_that_it_names_exists(tmp_path_factory: pytest.TempPathFactory) -> None:
    """[K1] What the log tells an operator to type does what it says."""
    from windlass.cli import main

    url = f"sqlite:///{tmp_path_factory.mktemp('db').as_posix()}/jobs.db"
    command = shlex.split("queue set mail --max-workers 8")
    answer = CliRunner().invoke(main, command, env={"WINDLASS_DATABASE_URL": url}, catch_exceptions=False)
    assert answer.exit_code == 0, answer.output
    with Windlass(url) as app:
        (queue,) = app._store_handle().call(lambda store: store.queues())
        assert queue.max_workers == 8


async def test_k1_a_paused_queue_stays_paused(line: Line) -> None:
    """[K2] Starting a worker changes nothing that somebody has set."""
    await line.open()
    await line.set_queue("mail", {"paused": True, "max_workers": 4})
    await seed(line.as_store, {"mail": 4})
    (queue,) = await line.queues()
    assert (queue.paused, queue.max_workers) == (True, 4)
