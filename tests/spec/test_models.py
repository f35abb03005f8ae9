"""The models hold as they are, and fail at the named invariant as soon as one rule is broken.

A model that cannot fail proves nothing, so every rule of the protocol that somebody might leave out stands
here with the harm that this does.
"""

from dataclasses import dataclass, field

import pytest

from tests.spec import tlc

CONFIGS = [
    "ahead",
    "batches",
    "carry",
    "dead_worker",
    "epoch",
    "holes",
    "horizon",
    "locks",
    "outcomes",
    "rotation",
    "wait",
]


@dataclass(frozen=True)
class Broken:
    """One broken rule, the configuration that shows it, and the invariant that falls."""

    rule: str
    config: str
    invariant: str
    bounds: dict[str, str] = field(default_factory=dict)


ONE_JOB = {"Preload": "1", "Limit": "1"}
TWO_SESSIONS = {"Sessions": "2"}

VARIANTS = [
    # Holes: numbers that a claim passes before their jobs are visible.
    Broken("horizon_xmax", "holes", "NothingLost"),
    Broken("claim_xid_before_read", "holes", "NothingLost", {"Producers": "{p1}"}),
    Broken("xmin_after_probe", "holes", "NothingLost"),
    Broken("hole_without_proof", "holes", "NothingLost"),
    Broken("hole_beyond_limit", "holes", "NothingLost"),
    Broken("look_before_xid", "horizon", "NothingLost"),
    # Claims.
    Broken("claim_repeatable_read", "holes", "ClaimedOnce", {"Workers": "{w1, w2}"}),
    Broken("cursor_outside_claim", "holes", "NothingLost"),
    Broken("no_fence_on_claims", "outcomes", "NothingStranded"),
    Broken("release_while_calling", "outcomes", "OneRunner"),
    # Outcomes and rescue.
    Broken("no_fence_on_outcomes", "outcomes", "FinishedStays"),
    Broken("flush_without_number", "batches", "OneOffer", {"MaxSeq": "4"}),
    Broken("finish_repeatable_read", "carry", "AnsweredIsWritten", ONE_JOB),
    Broken("rescue_without_lock", "outcomes", "OneOffer", {"MaxSeq": "3"}),
    Broken("rescue_repeatable_read", "dead_worker", "NothingStranded"),
    Broken("floor_by_what_is_held", "batches", "NothingStranded", {"Limit": "1"}),
    # Rotation.
    Broken("outcome_in_current", "carry", "FinishedStays", ONE_JOB),
    Broken("reclaim_by_generation", "carry", "NothingLost"),
    Broken("moves_not_checked", "carry", "NothingLost"),
    Broken("cursor_not_touched", "carry", "HasCursor", ONE_JOB),
    Broken("seal_skipped", "rotation", "NothingLost"),
    Broken("no_recheck_of_current", "rotation", "NothingLost"),
    Broken("evidence_first", "carry", "FinishedStays", ONE_JOB),
    Broken("carry_only_unfinished", "carry", "FinishedStays", ONE_JOB),
    Broken("carry_without_outcomes", "carry", "FinishedStays"),
    Broken("claims_before_cursor", "carry", "OneOffer", ONE_JOB),
    # A server that forgets.
    Broken("numbers_go_on", "epoch", "EndedHasRun"),
    Broken("draw_before_adoption", "epoch", "OneMeaning"),
    # Jobs that wait for signals.
    Broken("sender_leaves_no_note", "wait", "NoLostWakeUp"),
    Broken("flush_leaves_no_note", "wait", "NoLostWakeUp"),
    Broken("sender_trusts_its_look", "wait", "NoLostWakeUp"),
    Broken("look_forgets_what_is_held", "wait", "NoLostWakeUp"),
    Broken("step_decided_again", "wait", "TimedOutStays"),
    Broken("sender_answers_a_run", "wait", "NoLostWakeUp"),
    # The order of locks.
    Broken("adopt_waits", "locks", "NoRing", TWO_SESSIONS),
    Broken("adopt_takes_partitions", "locks", "NoRing", TWO_SESSIONS),
    Broken("cancel_after_enqueue", "locks", "NoRing", TWO_SESSIONS),
    Broken("chore_waits_for_lane", "locks", "NoRing", TWO_SESSIONS),
    Broken("claim_waits_for_tokens", "locks", "NoRing", TWO_SESSIONS),
    Broken("flush_in_any_order", "locks", "NoRing", TWO_SESSIONS),
    Broken("lanes_in_any_order", "locks", "NoRing", TWO_SESSIONS),
    Broken("migration_waits", "locks", "NoRing", TWO_SESSIONS),
    Broken("reclaim_waits", "locks", "NoRing", TWO_SESSIONS),
    Broken("rescue_takes_lane", "locks", "NoRing", TWO_SESSIONS),
]


@pytest.mark.slow
@pytest.mark.parametrize("name", CONFIGS)
def test_the_model_holds(name: str) -> None:
    verdict = tlc.check(tlc.model_of(name), tlc.configuration(name, {}))
    assert verdict.violated is None, verdict.output
    assert verdict.states > 1000, "so few states say nothing: the configuration switches too much off"


@pytest.mark.slow
@pytest.mark.parametrize("broken", VARIANTS, ids=lambda broken: broken.rule)
def test_a_broken_rule_is_found(broken: Broken) -> None:
    constants = broken.bounds | {"Broken": f'"{broken.rule}"'}
    verdict = tlc.check(
        tlc.model_of(broken.config), tlc.configuration(broken.config, constants, broken.invariant)
    )
    assert verdict.violated == broken.invariant, verdict.output


def test_every_configuration_is_checked() -> None:
    assert sorted(file.stem for file in tlc.SPEC.glob("*.cfg")) == CONFIGS
