"""The check that the chaos tests rest on can fail: each way in which a run may go wrong is found out."""

from pathlib import Path

import pytest

from tests.chaos.ledger import Balance, Claimed, Ended, Enqueued, Event, Ledger, Taken, Undone, read
from windlass.core.states import Kind


def claimed(job: int, at: float, *, seq: int | None = None, attempt: int = 1) -> Claimed:
    return Claimed(worker=1, claim=int(at), lane=1, jobs=[(seq or job, job, attempt)], at=at)


def ended(job: int, sent: float, kind: Kind = Kind.SUCCEEDED, *, flush: int | None = None) -> Ended:
    flush = int(sent) if flush is None else flush
    return Ended(worker=1, flush=flush, jobs=[(job, kind)], sent=sent, at=sent + 0.5, applied=1, refused=[])


GOOD: list[Event] = [Enqueued([1], 0.0), claimed(1, 1.0), ended(1, 2.0)]
SOUND: dict[str, list[Event]] = {
    "it ran once": GOOD,
    "the claim came before the producer had its answer": [claimed(1, 1.0), Enqueued([1], 1.5), ended(1, 2.0)],
    "it came back": [
        Enqueued([1], 0.0),
        *(claimed(1, 1.0), ended(1, 2.0, Kind.RETRY)),
        *(claimed(1, 3.0, seq=7, attempt=2), ended(1, 4.0, Kind.RELEASED)),
        *(claimed(1, 5.0, seq=8, attempt=2), Taken(1, [1], 6.0)),
        *(claimed(1, 7.0, seq=9, attempt=2), ended(1, 8.0)),
    ],
    "a flush was sent twice": [*GOOD, ended(1, 2.5, flush=2)],
    "another was rolled back": [*GOOD, Undone([2])],
}
WRONG: dict[str, list[Event]] = {
    "jobs lost": [*GOOD, Enqueued([2], 0.0)],
    "phantoms": [*GOOD, Undone([2]), claimed(2, 3.0), ended(2, 4.0)],
    "both committed and rolled back": [*GOOD, Undone([1])],
    "refused": [*GOOD, Ended(1, 9, [], 3.0, 3.5, 0, [1])],
}
TWICE: dict[str, list[Event]] = {
    "claimed while another held it": [
        Enqueued([1], 0.0),
        claimed(1, 1.0),
        claimed(1, 1.5, seq=7),
        ended(1, 2.0),
    ],
    "claimed after its end": [*GOOD, claimed(1, 3.0, seq=7)],
    "ended twice": [*GOOD, claimed(1, 3.0, seq=7), ended(1, 4.0)],
    "one position in two claims": [*GOOD, Enqueued([2], 0.0), claimed(2, 3.0, seq=1), ended(2, 4.0)],
    "an attempt charged for nothing": [
        Enqueued([1], 0.0),
        *(claimed(1, 1.0), ended(1, 2.0, Kind.RELEASED)),
        *(claimed(1, 3.0, seq=7, attempt=2), ended(1, 4.0)),
    ],
}


@pytest.mark.parametrize("name", SOUND)
def test_a_sound_story_is_accepted(name: str) -> None:
    Balance(SOUND[name]).check()


@pytest.mark.parametrize("name", [*WRONG, *TWICE])
def test_a_wrong_story_is_found_out(name: str) -> None:
    with pytest.raises(AssertionError, match=name if name in WRONG else "twice"):
        Balance({**WRONG, **TWICE}[name]).check()


def test_a_torn_last_line_did_not_happen(tmp_path: Path) -> None:
    path = tmp_path / "a.ledger"
    with Ledger(path) as ledger:
        ledger.enqueued([1])
        ledger.undone([2])
    path.write_bytes(path.read_bytes()[:-5])
    assert [type(event) for event in read(tmp_path)] == [Enqueued]
