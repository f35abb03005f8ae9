"""An open transaction holds a bucket, having taken tokens by hand: jobs that need tokens of it wait for that
aside, and nobody else does [F1] [F7] [S2]."""

import json

from tests.stock import BOTH
from tests.store.postgres.kit import Base, Session
from tests.store.postgres.limits.test_flow_waits import _lane, budget, claim, half_open, needs_of, tasks

__all__ = ["_lane"]

pytestmark = BOTH

LONG = 600_000
"""Milliseconds that a claim waits for a bucket, where it must not wait at all."""
ASIDE = "SELECT array_agg(task ORDER BY turn) FROM windlass.held WHERE gate = $1"
SWEEP = "SELECT * FROM windlass.sweep_gates(100)"
TAKE = "SELECT granted FROM windlass.take_tokens($1, 1, $2)"


async def hold(base: Base, name: str, key: str = "") -> Session:
    """A session that takes a token and goes on."""
    (hand,) = await base.sessions(1)
    await hand.begin()
    assert await hand.value(TAKE, name, key)
    return hand


async def enqueued(base: Base, *names: str) -> None:
    for name in names:
        await base.look.enqueue(name)


async def test_only_those_who_need_its_tokens_wait_for_a_held_bucket(base: Base) -> None:
    """The claim rolled back as a whole: five of 25 plain jobs behind such a job ran in 20 s."""
    worker, name = await base.worker(), await budget(base)
    needs, gate = needs_of(t=[(name, 1)]), f"budget:{name}/"
    hand = await hold(base, name)
    await enqueued(base, "t", "plain", "t", "plain")
    assert tasks(await claim(base, worker, needs)) == ["plain", "plain"]
    assert await base.look.value(ASIDE, gate) == ["t", "t"]
    await enqueued(base, "plain", "t")
    assert tasks(await claim(base, worker, needs, wait=LONG)) == ["plain"], "the others wait there already"
    await hand.commit()
    await base.look.value("SELECT windlass.admit_gates($1, 10)", [gate])
    assert tasks(await claim(base, worker, needs)) == ["t", "t", "t"]


async def test_nobody_is_let_out_for_tokens_that_are_held(alone: Base) -> None:
    """A claim would put it aside again, and so on; nor does the coordinator ask all the time."""
    await alone.lane()
    worker, name = await alone.worker(), await budget(alone)
    needs = needs_of(t=[(name, 1)])
    hand = await hold(alone, name)
    await enqueued(alone, "t")
    assert (await claim(alone, worker, needs)).jobs == []
    swept = await alone.look.row(SWEEP)
    assert (swept["admitted"], swept["next_in"]) == (0, 0.1)
    await hand.rollback()
    swept = await alone.look.row(SWEEP)
    assert swept["admitted"] == 1
    assert tasks(await claim(alone, worker, needs)) == ["t"]


async def test_one_that_was_let_out_before_goes_back_to_its_place(alone: Base) -> None:
    """It holds a pass and finds the bucket held; those behind it do not go first."""
    await alone.lane()
    worker, store = await alone.worker(), await alone.store()
    name = await budget(alone)
    needs, gate = needs_of(t=[(name, 1)], u=[(name, 1)]), f"budget:{name}/"
    assert (await store.take(name, 5)).granted
    await enqueued(alone, "t", "u")
    assert (await claim(alone, worker, needs)).jobs == []
    await store.give_back(name, 1)
    assert (await alone.look.row(SWEEP))["admitted"] == 1
    hand = await hold(alone, name)
    await enqueued(alone, "plain")
    assert tasks(await claim(alone, worker, needs)) == ["plain"]
    assert await alone.look.value(ASIDE, gate) == ["t", "u"]
    await hand.rollback()
    assert (await alone.look.row(SWEEP))["admitted"] == 1
    assert tasks(await claim(alone, worker, needs)) == ["t"]


async def test_a_bucket_that_is_not_committed_yet_is_held(base: Base) -> None:
    """Somebody takes the first tokens of a key; other keys of the budget go on."""
    worker, name = await base.worker(), await budget(base, key="k")
    hand = await hold(base, name, "new")
    for key in ("new", "other"):
        await base.look.enqueue(key, args=json.dumps({"k": key}))
    needs = json.dumps({task: [{"budget": name, "argument": "k"}] for task in ("new", "other")})
    assert tasks(await claim(base, worker, needs)) == ["other"]
    gate = f"budget:{name}/new"
    assert await base.look.value("SELECT windlass.admit_gates($1, 10)", [gate]) == 0
    await hand.commit()
    assert await base.look.value("SELECT windlass.admit_gates($1, 10)", [gate]) == 1
    assert tasks(await claim(base, worker, needs)) == ["new"]


async def test_a_probe_that_somebody_is_taking_by_hand_is_held(base: Base) -> None:
    """[F7] It holds the budget, too, and so the other buckets of that."""
    worker, name = await base.worker(), await budget(base, breaker=1, key="k")
    needs, gate = json.dumps({"t": [{"budget": name, "argument": "k"}]}), f"budget:{name}/b"
    await half_open(base, name)
    hand = await hold(base, name, "a")
    await base.look.enqueue("t", args='{"k": "b"}')
    await enqueued(base, "plain")
    assert tasks(await claim(base, worker, needs)) == ["plain"]
    assert await base.look.value("SELECT windlass.admit_gates($1, 10)", [gate]) == 0
    await hand.rollback()
    assert await base.look.value("SELECT windlass.admit_gates($1, 10)", [gate]) == 1
    assert tasks(await claim(base, worker, needs)) == ["t"]


async def test_a_job_that_waits_for_one_bucket_takes_nothing_of_another(base: Base) -> None:
    """Its tokens would be gone when it comes back."""
    worker, free, held = await base.worker(), await budget(base, "a", burst=1), await budget(base, "b")
    needs = needs_of(both=[(free, 1), (held, 1)], one=[(free, 1)])
    hand = await hold(base, held)
    await enqueued(base, "both", "one")
    assert tasks(await claim(base, worker, needs)) == ["one"]
    assert await base.look.value(ASIDE, f"budget:{held}/") == ["both"]
    await hand.commit()
