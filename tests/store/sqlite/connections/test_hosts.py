"""One machine only: workers of a second host are refused, and told what to use instead."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conformance.kit import HandClock
from tests.store.sqlite.kit import opened
from windlass.errors import ConfigurationError
from windlass.store.records import WorkerInfo
from windlass.store.sqlite import workers
from windlass.store.sqlite.workers import FORGOTTEN_HOST, Machine

HERE, THERE = Machine("here", "boot-1"), Machine("there", "boot-2")


@pytest.fixture
def stand_on(monkeypatch: pytest.MonkeyPatch) -> Callable[[Machine], None]:
    """Let this process believe that it runs on another machine."""
    return lambda where: monkeypatch.setattr(workers, "this_machine", lambda: where)


async def test_a_second_host_is_refused(tmp_path: Path, stand_on: Callable[[Machine], None]) -> None:
    async with opened(tmp_path / "w.db") as store:
        stand_on(HERE)
        await store.register(WorkerInfo(id=1, host="alpha", label="alpha-worker-1"))
        stand_on(THERE)
        with pytest.raises(ConfigurationError, match=r"(?s)alpha.*PostgreSQL"):
            await store.register(WorkerInfo(id=2, host="beta"))
        assert [worker.id for worker in await store.workers()] == [1]
        await store.retire(1)
        await store.register(WorkerInfo(id=2, host="beta"))


@pytest.mark.parametrize(
    "same",
    [
        pytest.param(Machine("here", "boot-9"), id="rebooted"),
        pytest.param(Machine("box", "boot-1"), id="container"),
    ],
)
async def test_the_same_machine_is_recognised(
    tmp_path: Path, stand_on: Callable[[Machine], None], same: Machine
) -> None:
    async with opened(tmp_path / "w.db") as store:
        stand_on(HERE)
        await store.register(WorkerInfo(id=1))
        stand_on(same)
        await store.register(WorkerInfo(id=2))


async def test_a_host_that_went_silent_is_not_in_the_way(
    tmp_path: Path, stand_on: Callable[[Machine], None]
) -> None:
    """The file was moved from a machine that died: somebody must be able to rescue what its workers held."""
    clock = HandClock()
    async with opened(tmp_path / "w.db", clock=clock) as store:
        stand_on(THERE)
        await store.register(WorkerInfo(id=1))
        await clock.advance(FORGOTTEN_HOST - 10)
        stand_on(HERE)
        with pytest.raises(ConfigurationError):
            await store.register(WorkerInfo(id=2))
        await clock.advance(20)
        await store.register(WorkerInfo(id=2))


def test_this_machine_has_an_identity() -> None:
    assert all(workers.this_machine())
    assert workers.this_machine() == workers.this_machine()
