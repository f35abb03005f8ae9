"""`app.maintain(...)`: a duty of the coordinator once, from code, with its counts [K3] [K11]."""

from typing import Any, get_args

import pytest

from windlass import State, Windlass
from windlass.cluster.maintain import Duty
from windlass.errors import TermLost
from windlass.store.protocol import Store
from windlass.store.records import WorkerInfo

ANSWERS: dict[str, set[str]] = {
    "promote": {"due", "admitted"},
    "retention": {"removed", "dead", "keys", "workers"},
    "rescue": {"rescued"},
    "schedules": {"jobs"},
    "rollup": {"folded", "rows"},
    "counts": {"ended", "claims", "corrected"},
    "governor": {"governors"},
    "slots": {"slots"},
}


def in_store(app: Windlass, work: Any) -> Any:
    return app._store_handle().call(work)


@pytest.fixture
def quick(any_app: Windlass, monkeypatch: pytest.MonkeyPatch) -> Windlass:
    """An app with a short lease: a rescue watches for that long."""
    monkeypatch.setenv("WINDLASS_LEASE", "3s")
    return any_app


@pytest.mark.parametrize("duty", get_args(Duty))
def test_k11_every_duty_has_its_counts(quick: Windlass, duty: Duty) -> None:
    assert set(quick.maintain(duty)) >= ANSWERS[duty]


async def test_k11_every_duty_can_be_awaited(quick: Windlass) -> None:
    assert set(get_args(Duty)) == set(ANSWERS)
    for duty in get_args(Duty):
        assert set(await quick.amaintain(duty)) >= ANSWERS[duty]


def test_k11_counts_say_what_was_done(any_app: Windlass) -> None:
    job = any_app.named("t").using(delay=1e-6).enqueue()
    assert any_app.maintain("promote")["due"] == 1
    assert job.status() is State.READY
    assert any_app.maintain("promote")["due"] == 0


def test_k11_rescue_takes_the_jobs_of_the_dead_back(quick: Windlass) -> None:
    """[C8] After watching heartbeats for a whole lease."""

    async def abandon(store: Store) -> None:
        await store.register(WorkerInfo(id=7, label="gone", queues=("default",), lease=1.0))
        assert await store.claim(7, ("default",), 10)

    job = quick.enqueue("t")
    in_store(quick, abandon)
    assert job.status() is State.RUNNING
    (rescued,) = quick.maintain("rescue")["rescued"]
    assert (rescued["worker"], rescued["label"], rescued["offered"]) == ("7", "gone", 1)
    assert job.status() is State.READY


@pytest.mark.parametrize("duty", ["slots", "governor"])
def test_k11_what_is_for_a_coordinator_alone(any_app: Windlass, duty: Duty) -> None:
    """[K3] It is done in a term of its own, which ends with it, and not beside another coordinator."""
    any_app.maintain(duty)
    assert in_store(any_app, lambda store: store.lead(1, 30)) is not None
    with pytest.raises(TermLost, match="another coordinator is active"):
        any_app.maintain(duty)


def test_k11_no_such_duty(any_app: Windlass) -> None:
    with pytest.raises(ValueError, match=r"no duty 'tidy'; there are counts, governor, promote, rescue"):
        any_app.maintain("tidy")  # type: ignore[arg-type]
