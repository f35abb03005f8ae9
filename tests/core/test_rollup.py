"""Samples and the rows they are rolled up into: adding up knows no order and no steps, and loses nothing."""

from collections import Counter
from collections.abc import Iterable

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from windlass.core.rollup import (
    COUNTS,
    EVER,
    HOUR,
    MINUTE,
    SPANS,
    Place,
    Sample,
    places,
    roll,
    standing,
    with_ends,
)
from windlass.core.states import WORKERS_OWN
from windlass.store.measures import pack, unpack

numbers = st.integers(0, 5)
samples = st.lists(
    st.builds(
        Sample,
        at=st.integers(0, 10 * HOUR).map(lambda at: at - at % MINUTE),
        queue=st.sampled_from(["", "a", "b"]),
        task=st.sampled_from(["", "s", "t"]),
        counts=st.dictionaries(st.sampled_from(sorted(COUNTS)), numbers, max_size=3),
        waits=st.dictionaries(st.integers(-2, 2), numbers, max_size=3),
        runs=st.dictionaries(st.integers(-2, 2), numbers, max_size=3),
    ),
    max_size=8,
)


def added(*rolled: dict[Place, Sample]) -> dict[Place, Sample]:
    """The rows of a store to which all of these were added, in this order."""
    rows: dict[Place, Sample] = {}
    for step in rolled:
        for place, sample in step.items():
            if place not in rows:
                rows[place] = Sample(at=place.at, queue=place.queue, task=place.task)
            rows[place].add(sample)
    return rows


@settings(max_examples=40)
@given(samples, samples, samples)
def test_in_whatever_steps(one: list[Sample], two: list[Sample], three: list[Sample]) -> None:
    """[M1]"""
    at_once = roll([*one, *two, *three])
    assert added(roll(one), roll(two), roll(three)) == at_once
    assert added(roll([*one, *two]), roll(three)) == at_once
    assert added(roll(one), roll([*two, *three])) == at_once


@given(samples.flatmap(lambda some: st.tuples(st.just(some), st.permutations(some))))
def test_in_whatever_order(both: tuple[list[Sample], list[Sample]]) -> None:
    """[M1]"""
    found, shuffled = both
    assert roll(found) == roll(shuffled)


def total(samples: Iterable[Sample]) -> tuple[Counter[str], Counter[int], Counter[int]]:
    """The sums of what was counted, without zeros."""
    counts, waits, runs = Counter[str](), Counter[int](), Counter[int]()
    for sample in samples:
        counts.update(sample.counts)
        waits.update(sample.waits)
        runs.update(sample.runs)
    return +counts, +waits, +runs


@given(samples)
def test_nothing_is_lost_and_nothing_counted_twice(reported: list[Sample]) -> None:
    """[M1] Over the rows of a span everything is counted once for everything, once for its queue, and once
    for its task; and each in the row of its time."""
    rows = roll(reported)
    for span in SPANS:
        for queue, task in {place[2:] for place in rows}:
            of_it = [row for place, row in rows.items() if place.span == span and place[2:] == (queue, task)]
            exact = [one for one in reported if (one.queue, one.task) == (queue, task)]
            within = [one for one in reported if queue in ("", one.queue)]
            assert total(of_it) == total(exact if task else within)
    for place, row in rows.items():
        assert (row.at, row.queue, row.task) == place[1:]
        assert row.at % (place.span or 1) == 0


@given(samples)
def test_what_was_told_stays_as_it_was(reported: list[Sample]) -> None:
    """Rows are others than the samples that went into them."""
    before = msgspec.json.encode(reported)
    rows = roll(reported)
    for row in rows.values():
        row.add(row)
    assert msgspec.json.encode(reported) == before


@settings(max_examples=40)
@given(samples)
def test_rows_survive_being_written_and_read(reported: list[Sample]) -> None:
    """[M1] Buckets without a run are left out."""
    for place, row in roll(reported).items():
        read = unpack(pack(row), *place[1:])
        assert (read.at, read.queue, read.task, read.counts) == (row.at, row.queue, row.task, row.counts)
        assert (read.waits, read.runs) == (+Counter(row.waits), +Counter(row.runs))


def test_a_row_is_small_and_a_counter_that_is_full_stays_so() -> None:
    """[M1] Sixty buckets of each, as a busy task has in a minute."""
    wide = dict.fromkeys(range(-20, 40), 100)
    assert len(pack(Sample(at=60, counts={"succeeded": 6000, "retry": 3}, waits=wide, runs=wide))) < 180
    full = Sample(at=60, counts={"succeeded": 2**63}, waits={3: 2**70})
    assert unpack(pack(full), 60, "", "") == Sample(
        at=60, counts={"succeeded": 2**63 - 1}, waits={3: 2**63 - 1}
    )


def test_the_rows_of_a_sample() -> None:
    at = 7 * HOUR + 3 * MINUTE
    assert set(places(Sample(at=at, queue="q", task="t"))) == {
        Place(span, begin, queue, task)
        for span, begin in ((MINUTE, at), (HOUR, 7 * HOUR), (EVER, 0))
        for queue, task in (("q", "t"), ("q", ""), ("", ""))
    }


def test_a_sample_of_nothing_in_particular_has_one_row_a_span() -> None:
    assert len(list(places(Sample(at=60)))) == 3
    assert len(list(places(Sample(at=60, queue="q")))) == 6


def test_a_gauge_is_told_as_the_mean_of_what_was_seen() -> None:
    """[M1] Each queue over the looks that found something in it, everything over the rounds."""
    rows = roll(
        [
            Sample(at=60, queue="mail", counts={"looks": 2, "ready": 30, "waited": 4_000}),
            Sample(at=60, queue="imports", counts={"looks": 1, "ready": 10, "waited": 9_000}),
            Sample(at=60, counts={"rounds": 2, "waited_most": 12_000}),
        ]
    )
    assert standing(rows[Place(60, 60, "mail", "")]) == (15.0, 2.0)
    assert standing(rows[Place(60, 60, "imports", "")]) == (10.0, 9.0)
    assert standing(rows[Place(60, 60, "", "")]) == (20.0, 6.0)
    assert standing(Sample(at=60)) == (0.0, 0.0)


def test_whatever_a_worker_says_of_its_jobs_is_counted() -> None:
    assert set(WORKERS_OWN) <= COUNTS


def test_ends_are_those_of_the_store() -> None:
    """[M7] In the rows of the task, its queue and everything; what was reported stays as it was."""
    told = [
        Sample(at=0, counts={"dead": 4, "retry": 1}, runs={3: 5}),
        Sample(at=0, queue="q", task="t", counts={"dead": 4, "retry": 1}),
    ]
    ended = [
        Sample(at=0, queue="q", task="t", counts={"succeeded": 2}),
        Sample(at=0, queue="q", task="u", counts={"succeeded": 1, "dead": 1}),
    ]
    rows = {(row.queue, row.task): row for row in with_ends(told, ended)}
    assert {key: row.counts for key, row in rows.items()} == {
        ("", ""): {"retry": 1, "succeeded": 3, "dead": 1},
        ("q", ""): {"succeeded": 3, "dead": 1},
        ("q", "t"): {"retry": 1, "succeeded": 2},
        ("q", "u"): {"succeeded": 1, "dead": 1},
    }
    assert rows["", ""].runs == {3: 5}
    assert told[0].counts == {"dead": 4, "retry": 1}
