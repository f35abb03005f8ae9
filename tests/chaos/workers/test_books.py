"""The books themselves: what they let pass, and that they see each thing that must not happen."""

import pytest

from tests.chaos.workers.books import Books
from tests.chaos.workers.jobs import Entry

JOB, HERE, THERE = 5, 100, 200


def story(pid: int, fence: int, began: float, *whats: str) -> list[Entry]:
    """One run: an entry each second."""
    return [
        Entry(what=what, job=JOB, pid=pid, fence=fence, at=began + number)
        for number, what in enumerate(("start", *whats))
    ]


WELL = story(HERE, 1, 0.0, "effect", "done")
CUT = story(HERE, 1, 0.0, "effect")


def test_a_run_that_ends_well_adds_up() -> None:
    Books(WELL, {}).check([JOB])


def test_a_kill_may_cost_an_effect() -> None:
    books = Books(CUT + story(THERE, 2, 3.0, "effect", "done"), {HERE: 2.0})
    books.check([JOB])
    assert books.extra == 1


def test_a_stopped_process_may_overlap_with_the_one_that_took_over() -> None:
    Books([*CUT, *story(THERE, 2, 0.5, "effect", "done")], {}, [HERE]).check([JOB])


def test_a_run_that_was_handed_back_may_be_repeated() -> None:
    Books(story(HERE, 1, 0.0, "effect", "stopped") + story(THERE, 2, 3.0, "effect", "done"), {}).check([JOB])


@pytest.mark.parametrize(
    ("entries", "killed", "text"),
    [
        ([], {}, "had no effect"),
        (story(HERE, 1, 0.0, "done"), {}, "had no effect"),
        (WELL + story(THERE, 2, 3.0, "effect", "done"), {}, "too many effects"),
        (story(HERE, 1, 0.0, "effect", "effect", "done"), {HERE: 9.0}, "two runs under one fence"),
        (CUT, {}, "a run without an end"),
        (CUT + story(THERE, 2, 1.5, "effect", "done"), {HERE: 2.0}, "two at the same time"),
    ],
    ids=["lost", "no effect", "twice", "one fence", "no end", "overlap"],
)
def test_what_must_not_happen_is_seen(entries: list[Entry], killed: dict[int, float], text: str) -> None:
    with pytest.raises(AssertionError, match=text):
        Books(entries, killed).check([JOB])
