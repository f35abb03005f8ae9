"""The fate of each option where a job is repeated, or split into parts: it is kept, or stands here."""

from windlass.store.records import DEFAULT_OPTIONS, Options, PartOf

PART = PartOf(parent=7, index=0, total=1)
FULL = Options(
    max_attempts=7, timeout=1.0, unique_key="u", fair_key="f", ordering_key="o", concurrency_key="c",
    key_limit=2, task_limit=3, costs={"b": 1}, tags=("t",), headers={"h": "1"}, trace="tr", replay_of=5,
    unknown_since=1.0, expires=2.0, expires_at=3.0, chunked=True, part=PartOf(parent=9, index=1, total=2),
    after=(4,), otherwise="run", needs="gpu", group_end=True, results={"a": 4},
)  # fmt: skip
REPLAY = {"unique_key", "unknown_since", "expires_at", "replay_of", "after"}
"""Options that a replay has not, or as its own."""
PARTS = {
    "unique_key", "ordering_key", "after", "chunked", "group_end", "replay_of", "unknown_since", "expires",
    "expires_at", "part",
}  # fmt: skip
"""Options that are the parent's alone."""


def differs(one: Options, other: Options) -> set[str]:
    return {name for name in Options.__struct_fields__ if getattr(one, name) != getattr(other, name)}


def test_an_option_that_is_not_here_has_been_forgotten() -> None:
    assert differs(FULL, DEFAULT_OPTIONS) == set(Options.__struct_fields__)


def test_o6_a_replay_keeps_the_other_options() -> None:
    again = FULL.of_replay(6)
    assert differs(again, FULL) == REPLAY
    assert again.replay_of == 6
    assert differs(again, DEFAULT_OPTIONS) & REPLAY == {"replay_of"}


def test_p4_a_part_keeps_the_other_options() -> None:
    part = FULL.of_part(PART)
    assert differs(part, FULL) == PARTS
    assert differs(part, DEFAULT_OPTIONS) & PARTS == {"part"}
