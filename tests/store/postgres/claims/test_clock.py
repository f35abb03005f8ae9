"""The database's clock is set back: what claims compare with it, and the whole of it on a server whose clock
really is set [fault 31]."""

import tempfile
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from tests import left_out
from tests.conformance import test_clock_steps as steps
from tests.conformance.kit import Rig
from tests.postgres import Server
from tests.store.postgres.kit import Base
from windlass.store.postgres import PostgresStore

HOUR = 3600.0


class FileClock:
    """The clock of a server that runs under libfaketime: real time and what stands in a file."""

    def __init__(self, file: Path) -> None:
        self._file, self._offset = file, 0.0
        self._write()

    async def advance(self, seconds: float) -> None:
        self._offset += seconds
        self._write()

    def _write(self) -> None:
        fresh = self._file.with_suffix(".new")
        fresh.write_text(f"{self._offset:+f}")
        fresh.chmod(0o644)
        fresh.replace(self._file)  # at once: a backend reads it at any moment


@pytest.fixture(scope="module")
def stepped() -> Iterator[tuple[Server, FileClock]]:
    """A server whose clock can be set."""
    library = left_out.faketime()
    if library is None:
        pytest.skip(left_out.CLOCK.reason)
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "offset"
        file.parent.chmod(0o755)  # the server may run under another account
        clock = FileClock(file)
        environment = {
            "LD_PRELOAD": library,
            "FAKETIME_TIMESTAMP_FILE": str(file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }
        with Server(18, fsync=False, environment=environment) as server:
            yield server, clock


SCENES: dict[str, Callable[[Rig], Awaitable[None]]] = {
    "budget": steps.test_a_budget_goes_on_from_now,
    "drain": lambda rig: steps.test_a_drained_budget_pauses_no_longer_than_it_was_told_to(rig, None),
    "breaker": steps.test_a_breaker_opens_no_longer_than_it_was_to,
    "term": steps.test_a_term_ends,
    "cool-down": steps.test_a_cool_down_is_over,
    "begin_chore": steps.test_a_chore_can_begin,
    "due": steps.test_jobs_that_fall_due_are_found,
    "running, back": lambda rig: steps.test_what_runs_is_kept(rig, -HOUR),
    "running, forward": lambda rig: steps.test_what_runs_is_kept(rig, HOUR),
    "frequent schedule": steps.test_a_frequent_schedule_does_not_stall,
    "rare schedule": steps.test_a_rare_schedule_does_not_repeat,
    "forward schedule": steps.test_a_step_forward_fires_once,
}


@pytest.mark.timeout(120)
async def test_a_server_whose_clock_is_set(stepped: tuple[Server, FileClock]) -> None:
    """[fault 31] The same as by the one function that tells the time, and whatever does not ask that."""
    server, clock = stepped
    template = server.create_database()
    store = PostgresStore(server.dsn(template))
    await store.migrate()
    await store.close()
    for name, scene in SCENES.items():
        store = PostgresStore(server.dsn(server.create_database(template)), head_cache=0.0, dump_grace=0.0)
        await store.open()
        try:
            await scene(Rig(store, clock, "postgres"))
        except AssertionError as error:
            raise AssertionError(f"{name}: {error}") from error
        finally:
            await store.close()


async def test_late_jobs_are_found_though_the_clock_went_back(alone: Base) -> None:
    """[rule 3] [fault 31] Nobody looked into the holes of a lane for an hour: a job that was committed late
    waited for the clock to catch up."""
    lane, worker, clock = await alone.lane(), await alone.worker(), await alone.clock()
    (producer,) = await alone.sessions(1)
    await producer.begin()
    late = await producer.enqueue()
    other = await alone.look.enqueue()
    assert (await alone.claim(lane, worker)).ids == [other]
    await clock.advance(-HOUR)
    await producer.commit()
    assert (await alone.claim(lane, worker)).ids == [late]


async def test_burnt_numbers_are_passed_though_the_clock_went_back(alone: Base) -> None:
    """[rule 3] [fault 31] Else the depth of an idle lane would not fall to 0 for an hour."""
    lane, worker, clock = await alone.lane(), await alone.worker(), await alone.clock()
    await alone.look.enqueue()
    assert len((await alone.claim(lane, worker)).jobs) == 1
    await clock.advance(-HOUR)
    (producer,) = await alone.sessions(1)
    await producer.begin()
    await producer.enqueue()
    await producer.rollback()
    assert await alone.depth(lane) == 1
    await alone.claim(lane, worker)
    await clock.advance(1.1)
    await alone.claim(lane, worker)
    assert await alone.depth(lane) == 0
