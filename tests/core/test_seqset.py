"""Sets of seqs as ranges, and the text PostgreSQL reads."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from windlass.core.seqset import compress, contains, literal, parse

SEQS = st.lists(st.integers(1, 60)) | st.lists(st.integers(1, 2**44 - 1), max_size=20)


@given(SEQS)
def test_the_same_seqs_come_out(seqs: list[int]) -> None:
    """Whatever their order, and however often each was named."""
    ranges = compress(seqs)
    assert sum(upper - lower for lower, upper in ranges) == len(set(seqs))
    assert all(any(lower <= seq < upper for lower, upper in ranges) for seq in seqs)


@given(SEQS)
def test_ranges_are_sorted_disjoint_and_as_few_as_can_be(seqs: list[int]) -> None:
    ranges = compress(seqs)
    assert all(lower < upper for lower, upper in ranges)
    assert all(earlier[1] < later[0] for earlier, later in pairwise(ranges))


@given(st.integers(1, 1000), st.integers(1, 1000))
def test_a_run_of_numbers_is_one_range(start: int, length: int) -> None:
    assert compress(range(start, start + length)) == [(start, start + length)]


def test_examples() -> None:
    assert compress([]) == []
    assert compress([7]) == [(7, 8)]
    assert compress([3, 1, 2, 9, 5, 5]) == [(1, 4), (5, 6), (9, 10)]
    assert compress([1, 1, 3]) == [(1, 2), (3, 4)]


def test_the_text_form() -> None:
    assert literal([]) == "{}"
    assert literal([(1, 4), (9, 10)]) == "{[1,4),[9,10)}"


@given(SEQS)
def test_the_text_form_is_read_back(seqs: list[int]) -> None:
    ranges = compress(seqs)
    assert parse(literal(ranges)) == ranges


@given(SEQS, st.integers(0, 61))
def test_a_range_holds_its_first_and_not_its_end(seqs: list[int], other: int) -> None:
    ranges = compress(seqs)
    assert contains(ranges, other) == (other in seqs)
    for lower, upper in ranges:
        assert [contains(ranges, each) for each in (lower - 1, lower, upper - 1, upper)] == [
            False,
            True,
            True,
            False,
        ]
