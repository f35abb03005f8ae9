"""Job ids: a lane and a seq in one positive bigint."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.core.ids import LANE_BITS, MAX_LANE, MAX_SEQ, RESERVED_LANE, SEQ_BITS, pack, read

LANES = st.integers(0, MAX_LANE)
SEQS = st.integers(1, MAX_SEQ)


@given(LANES, SEQS)
def test_an_id_holds_its_lane_and_seq(lane: int, seq: int) -> None:
    job = pack(lane, seq)
    assert (job >> SEQ_BITS, job & MAX_SEQ) == (lane, seq)


@given(LANES, SEQS)
def test_an_id_is_a_positive_bigint(lane: int, seq: int) -> None:
    assert 0 < pack(lane, seq) < 2**63


@given(st.tuples(LANES, SEQS), st.tuples(LANES, SEQS))
def test_ids_are_ordered_like_positions(first: tuple[int, int], second: tuple[int, int]) -> None:
    assert (pack(*first) < pack(*second)) == (first < second)


def test_the_whole_bigint_is_used() -> None:
    assert LANE_BITS + SEQ_BITS == 63
    assert pack(MAX_LANE, MAX_SEQ) == 2**63 - 1
    assert pack(RESERVED_LANE, 1) == 1


@pytest.mark.parametrize("word", ["", "0", "-1", "x", "1.5", "\u0663", str(2**63), "1" * 5000])
def test_what_is_no_id_is_not_read(word: str) -> None:
    assert read(word) is None
    assert read(str(2**63 - 1)) == 2**63 - 1


@pytest.mark.parametrize(("lane", "seq"), [(-1, 1), (MAX_LANE + 1, 1), (0, 0), (1, -1), (1, MAX_SEQ + 1)])
def test_no_such_position(lane: int, seq: int) -> None:
    with pytest.raises(ValueError, match="no such position"):
        pack(lane, seq)
