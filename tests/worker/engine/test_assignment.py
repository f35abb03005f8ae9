"""What the store says, turned into what one worker may do [K1]."""

import pytest

from windlass.core.retry import Backoff
from windlass.core.slots import MAX_SLOTS, UNSIZED
from windlass.store.records import ClusterView, QueueRecord
from windlass.worker.engine.assignment import Assignment, assignment_for

ME = 7


def view(
    *queues: QueueRecord, mine: dict[str, int] | None = None, serving: dict[str, int] | None = None
) -> ClusterView:
    slots = {} if mine is None else {ME: mine}
    return ClusterView({queue.name: queue for queue in queues}, slots, serving or {})


def slots(
    known: ClusterView | None, before: Assignment | None = None, *, flag: int | None = 5, trusted: bool = True
) -> int:
    assignment, _ = assignment_for(ME, {"mail": flag}, known, before or Assignment(), trusted=trusted)
    return assignment.slots["mail"]


def test_k1_an_assignment_counts() -> None:
    """[K1] Also one of none at all."""
    mail = QueueRecord(name="mail", max_workers=10)
    assert slots(view(mail, mine={"mail": 4}, serving={"mail": 3})) == 4
    assert slots(view(mail, mine={"mail": 0}, serving={"mail": 3})) == 0


@pytest.mark.parametrize("trusted", [True, False])
def test_k1_without_one_it_is_a_share(trusted: bool) -> None:
    """[K1] ceil(10 ÷ 3), never 10; so it is where the answer is an old one."""
    mail = QueueRecord(name="mail", max_workers=10)
    mine = {"mail": 9} if not trusted else None
    assert slots(view(mail, mine=mine, serving={"mail": 3}), trusted=trusted) == 4


def test_k1_paused_and_cooling_queues_have_none() -> None:
    """[K1] [O3]"""
    for closed in (QueueRecord(name="mail", paused=True), QueueRecord(name="mail", cooling=0.5)):
        assert slots(view(closed)) == 0


def test_k1_a_queue_without_a_size_is_sized_by_the_flag() -> None:
    """[K1] At most a thousand a process, and a few where nobody has said anything."""
    mail = QueueRecord(name="mail")
    assert slots(view(mail), flag=5) == 5
    assert slots(view(mail), flag=5000) == MAX_SLOTS
    assert slots(view(mail), flag=None) == UNSIZED
    assert slots(view(QueueRecord(name="mail", max_workers=5000)), flag=5) == MAX_SLOTS


def test_k1_a_queue_whose_row_is_gone_keeps_its_size() -> None:
    """[K1] And is named, so that somebody can be warned."""
    before = Assignment({"mail": 3})
    assignment, gone = assignment_for(ME, {"mail": 5}, view(), before)
    assert (assignment.slots, gone) == ({"mail": 3}, ["mail"])
    assignment, gone = assignment_for(ME, {"mail": 5}, view(), Assignment())
    assert (assignment.slots, gone) == ({"mail": 5}, ["mail"])


def test_k1_before_the_first_answer_nothing_changes() -> None:
    """[K1]"""
    before = Assignment({"mail": 3})
    assert assignment_for(ME, {"mail": 5}, None, before) == (before, [])


def test_an_assignment_knows_only_its_own_queues() -> None:
    assignment, _ = assignment_for(
        ME, {"mail": 5}, view(QueueRecord(name="mail"), QueueRecord(name="other")), Assignment()
    )
    assert set(assignment.queues) == {"mail"}


def test_o2_a_view_says_how_retries_are_spaced() -> None:
    """[O2] Off means at once; what is not known has the defaults."""
    assignment = Assignment(
        {},
        {
            "off": QueueRecord(name="off", backoff=False),
            "own": QueueRecord(name="own", backoff_base=2.0, backoff_cap=8.0),
        },
    )
    assert [assignment.backoff("off").delay(n) for n in (1, 5)] == [0.0, 0.0]
    assert [assignment.backoff("own").delay(n) for n in (1, 2, 3, 9)] == [2.0, 4.0, 8.0, 8.0]
    assert assignment.backoff("unknown") == Backoff(5.0, 1800.0)


def test_o3_a_queue_can_be_closed() -> None:
    """[O3]"""
    assignment = Assignment(dict.fromkeys(["a", "b"], 4))
    assert assignment.without("a").slots == {"a": 0, "b": 4}
    assert assignment.slots == {"a": 4, "b": 4}


def test_k1_who_comes_up_first_leaves_room_for_its_siblings() -> None:
    """Long jobs that it began with in their place would stay with it."""
    alone = view(QueueRecord(name="mail", max_workers=4), mine={"mail": 4}, serving={"mail": 1})
    assignment, _ = assignment_for(ME, {"mail": 4}, alone, Assignment(), missing=1)
    assert assignment.slots == {"mail": 2}
    assignment, _ = assignment_for(ME, {"mail": 4}, alone, Assignment())
    assert assignment.slots == {"mail": 4}


def test_k1_missing_siblings_are_no_reason_to_take_more_than_assigned() -> None:
    """[K1] Another host has the only slot."""
    assignment, _ = assignment_for(
        ME,
        {"mail": 1},
        view(QueueRecord(name="mail", max_workers=1), mine={"mail": 0}, serving={"mail": 2}),
        Assignment(),
        missing=1,
    )
    assert assignment.slots == {"mail": 0}


def test_k10_slots_of_each_process() -> None:
    """[K10] However many workers there are; with a number for the cluster the smaller of the two."""
    each = QueueRecord(name="mail", process_slots=4)
    assert slots(view(each, serving={"mail": 30}), flag=9) == 4
    both = QueueRecord(name="mail", process_slots=4, max_workers=10)
    assert slots(view(both, mine={"mail": 10}, serving={"mail": 1})) == 4
    assert slots(view(both, mine={"mail": 2}, serving={"mail": 5})) == 2
