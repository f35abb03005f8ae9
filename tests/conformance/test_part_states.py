"""The states of all parts of a parent at once [P10]. `Rig.strip` compares them with the parts themselves
wherever a test looks at these."""

from tests.conformance.kit import Rig
from windlass.core.states import Kind, State

D, R, S, W = State.DEAD, State.RUNNING, State.SUCCEEDED, State.WAITING


async def test_nobody_has_no_parts(rig: Rig) -> None:
    """[P10] A job that was not split, one that never was, and numbers that no job can have."""
    (job,) = await rig.add("t")
    for id in (job, job + 1, 0, -1, 2**63):
        assert await rig.store.part_states(id) == []


async def test_gaps_among_those_that_were_not_offered(rig: Rig) -> None:
    """[P9] [P10] A redrive puts some back that come before the rest."""
    worker = await rig.worker()
    id = await rig.parent(worker, 12, parallel=6, tolerated=100)
    first = await rig.claim(worker, limit=6)
    for number, job in enumerate(first):
        await rig.finish(worker, job, Kind.SUCCEEDED if number % 2 else Kind.DEAD)
    running = await rig.claim(worker, limit=3)
    assert len(running) == 3
    assert await rig.states(id) == [D, S] * 3 + [R] * 3 + [State.READY] + [W] * 2
    assert await rig.store.redrive(id) == 3
    states = await rig.states(id)
    assert states[1:6:2] == [S] * 3
    assert set(states[0:6:2]) <= {W, State.READY}
    assert states[6:9] == [R] * 3
