"""windlass job events: what a job emits [W3]."""

import json

import pytest

from tests.cli.kit import Desk
from tests.conformance.kit import Rig
from windlass.core.states import Kind
from windlass.store.records import Emits


async def tell(rig: Rig) -> int:
    """A job that failed once, with a word of each kind."""
    worker = await rig.worker()
    (id,) = await rig.add("t")
    job = await rig.run(worker, id)
    await rig.store.emit(worker, [Emits(job=job, after=None, n=2, events='["Hello, ","wor\\u001b[2J"]')])
    await rig.finish(worker, job, Kind.RETRY)
    again = await rig.run(worker, id)
    await rig.store.emit(worker, [Emits(job=again, after=None, n=3, events='["Hello,","\\n",{"n":1}]')])
    await rig.finish(worker, again)
    return id


@pytest.mark.parametrize("how", [(), ("--follow",)])
def test_w3_text_flows_and_attempts_are_marked(desk: Desk, how: tuple[str, ...]) -> None:
    id = desk.visit(tell)
    result = desk.run("job", "events", str(id), *how)
    assert result.exit_code == 0
    assert result.stdout == 'Hello, wor\\x1b[2J\nHello,\n{"n": 1}\n'
    assert "(run 2, attempt 2)" in result.stderr


def test_w3_json_has_positions_and_the_state(any_desk: Desk) -> None:
    id = any_desk.visit(tell)
    found = any_desk.json("job", "events", str(id))
    assert found["state"] == "succeeded"
    assert [(each["position"], each["attempt"]) for each in found["events"]] == [
        (1, 1), (2, 1), (3, 2), (4, 2), (5, 2),
    ]  # fmt: skip
    assert [each["value"] for each in any_desk.json("job", "events", str(id), "--after", "3")["events"]] == [
        "\n",
        {"n": 1},
    ]
    lines = [
        json.loads(line) for line in any_desk.ok("job", "events", str(id), "--follow", "--json").splitlines()
    ]
    assert [line["position"] for line in lines[:-1]] == [1, 2, 3, 4, 5]
    assert lines[-1] == {"state": "succeeded"}


def test_w3_a_job_that_is_not_there(desk: Desk) -> None:
    desk.visit(tell)
    assert "no job 4711" in desk.refused("job", "events", "4711")


@pytest.mark.parametrize("after", ["-1", str(2**63), "four"])
def test_w3_what_is_no_position_is_refused(desk: Desk, after: str) -> None:
    result = desk.run("job", "events", "4711", "--after", after)
    assert result.exit_code == 2
    assert "--after" in result.stderr
