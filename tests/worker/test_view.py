"""What the store says, turned into what one worker may do [K1]."""

import pytest

from windlass.core.retry import Backoff
from windlass.core.slots import MOST, UNSIZED
from windlass.store.records import QueueRecord, Steering
from windlass.worker.view import View, everything, steer

ME = 7


def told(
    *queues: QueueRecord, mine: dict[str, int] | None = None, serving: dict[str, int] | None = None
) -> Steering:
    slots = {} if mine is None else {ME: mine}
    return Steering({queue.name: queue for queue in queues}, slots, serving or {})


def slots(
    told: Steering | None, before: View | None = None, *, flag: int | None = 5, trusted: bool = True
) -> int:
    view, _ = steer(ME, {"mail": flag}, told, before or View(), trusted=trusted)
    return view.slots["mail"]


def test_k1_an_assignment_counts() -> None:
    """[K1] Also one of none at all."""
    mail = QueueRecord(name="mail", max_workers=10)
    assert slots(told(mail, mine={"mail": 4}, serving={"mail": 3})) == 4
    assert slots(told(mail, mine={"mail": 0}, serving={"mail": 3})) == 0


@pytest.mark.parametrize("trusted", [True, False])
def test_k1_without_one_it_is_a_share(trusted: bool) -> None:
    """[K1] ceil(10 ÷ 3), never 10; so it is where the answer is an old one."""
    mail = QueueRecord(name="mail", max_workers=10)
    mine = {"mail": 9} if not trusted else None
    assert slots(told(mail, mine=mine, serving={"mail": 3}), trusted=trusted) == 4


def test_k1_paused_and_cooling_queues_have_none() -> None:
    """[K1] [O3]"""
    for closed in (QueueRecord(name="mail", paused=True), QueueRecord(name="mail", cooling=0.5)):
        assert slots(told(closed)) == 0


def test_k1_a_queue_without_a_size_is_sized_by_the_flag() -> None:
    """[K1] At most 64 a process, and a few where nobody has said anything."""
    mail = QueueRecord(name="mail")
    assert slots(told(mail), flag=5) == 5
    assert slots(told(mail), flag=500) == MOST
    assert slots(told(mail), flag=None) == UNSIZED
    assert slots(told(QueueRecord(name="mail", max_workers=1000)), flag=5) == MOST


def test_k1_a_queue_whose_row_is_gone_keeps_its_size() -> None:
    """[K1] And is named, so that somebody can be warned."""
    before = View({"mail": 3})
    view, gone = steer(ME, {"mail": 5}, told(), before)
    assert (view.slots, gone) == ({"mail": 3}, ["mail"])
    view, gone = steer(ME, {"mail": 5}, told(), View())
    assert (view.slots, gone) == ({"mail": 5}, ["mail"])


def test_k1_before_the_first_answer_nothing_changes() -> None:
    """[K1]"""
    before = View({"mail": 3})
    assert steer(ME, {"mail": 5}, None, before) == (before, [])


def test_a_view_knows_only_its_own_queues() -> None:
    view, _ = steer(ME, {"mail": 5}, told(QueueRecord(name="mail"), QueueRecord(name="other")), View())
    assert set(view.queues) == {"mail"}


def test_o2_a_view_says_how_retries_are_spaced() -> None:
    """[O2] Off means at once; what is not known has the defaults."""
    view = View(
        {},
        {
            "off": QueueRecord(name="off", backoff=False),
            "own": QueueRecord(name="own", backoff_base=2.0, backoff_cap=8.0),
        },
    )
    assert [view.backoff("off").delay(n) for n in (1, 5)] == [0.0, 0.0]
    assert [view.backoff("own").delay(n) for n in (1, 2, 3, 9)] == [2.0, 4.0, 8.0, 8.0]
    assert view.backoff("unknown") == Backoff(5.0, 1800.0)


def test_o3_a_queue_can_be_closed() -> None:
    """[O3]"""
    view = everything(["a", "b"], 4)
    assert view.closed("a").slots == {"a": 0, "b": 4}
    assert view.slots == {"a": 4, "b": 4}


def test_k1_who_comes_up_first_leaves_room_for_its_siblings() -> None:
    """Long jobs that it began with in their place would stay with it."""
    alone = told(QueueRecord(name="mail", max_workers=4), mine={"mail": 4}, serving={"mail": 1})
    view, _ = steer(ME, {"mail": 4}, alone, View(), missing=1)
    assert view.slots == {"mail": 2}
    view, _ = steer(ME, {"mail": 4}, alone, View())
    assert view.slots == {"mail": 4}


def test_k1_missing_siblings_are_no_reason_to_take_more_than_assigned() -> None:
    """[K1] Another host has the only slot."""
    view, _ = steer(
        ME,
        {"mail": 1},
        told(QueueRecord(name="mail", max_workers=1), mine={"mail": 0}, serving={"mail": 2}),
        View(),
        missing=1,
    )
    assert view.slots == {"mail": 0}
