"""The words that databases, pages and users' code hold: none of them may change."""

import pytest

from windlass.core.states import FINISHED, TERMINAL, WORKERS_OWN, Kind, Priority, State


def test_the_words_are_those_that_stores_hold() -> None:
    states = "scheduled ready running retrying succeeded dead cancelled splitting waiting"
    assert " ".join(State) == states
    kinds = "succeeded dead cancelled deleted replaced split retry snooze throttled unknown released lost"
    assert " ".join(Kind) == kinds
    assert [State[each.upper()] for each in states.split()] == list(State)
    assert [Kind[each.upper()] for each in kinds.split()] == list(Kind)


def test_what_ends_a_job() -> None:
    assert {"succeeded", "dead", "cancelled"} == FINISHED
    assert {"succeeded", "dead", "cancelled", "deleted", "replaced"} == TERMINAL


def test_what_a_worker_may_say_of_its_jobs() -> None:
    for_others = {"deleted", "replaced", "lost", "split"}
    assert set(Kind) - for_others == WORKERS_OWN


@pytest.mark.parametrize(("name", "number"), [("urgent", 0), ("high", 1), ("normal", 2), ("low", 3)])
def test_a_priority_is_a_member_a_name_or_a_number(name: str, number: int) -> None:
    found = Priority.parse(name)
    assert found == number
    assert Priority.parse(number) is Priority.parse(found) is Priority.parse(name.upper()) is found


@pytest.mark.parametrize("wrong", ["soon", "", "0"])
def test_no_priority_has_this_name(wrong: str) -> None:
    with pytest.raises(ValueError, match="use one of urgent, high, normal, low"):
        Priority.parse(wrong)


@pytest.mark.parametrize("wrong", [4, -1])
def test_no_priority_has_this_number(wrong: int) -> None:
    with pytest.raises(ValueError, match="not a valid Priority"):
        Priority.parse(wrong)
