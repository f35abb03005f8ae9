"""windlass jobs and windlass job …: what they show, what they do, what they refuse [M3] [M4] [O5] [O6]."""

import json
import re
from typing import Any

import pytest

from tests.cli.kit import Desk
from tests.conformance.kit import Rig, failure
from windlass.core.states import Kind, State
from windlass.endings import MAX_DELAY
from windlass.store.records import Checkpoint, Step, Wait

HOSTILE = "[red]x[/red] \x1b]0;owned\x07 \u202e\u2028"
UNKNOWN = "987654321"
SHAPE = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}


def brought(desk: Desk, state: State, **fields: Any) -> str:
    """A job in this state, by its id."""

    async def bring(rig: Rig) -> int:
        return await rig.bring(state, await rig.worker(), **fields)

    return str(desk.visit(bring))


def state(desk: Desk, id: str) -> State | None:
    return desk.visit(lambda rig: rig.state(int(id)))


def test_m3_newest_first_with_filters_limit_and_cursor(any_desk: Desk) -> None:
    async def fill(rig: Rig) -> list[int]:
        first = await rig.add("a", "b", "a", queue="mail", tags=("red",), payload='{"args":["50%"]}')
        return first + await rig.add("c", queue="imports")

    ids = [str(id) for id in any_desk.visit(fill)]
    page = any_desk.json("jobs", "--limit", "3")
    rest = any_desk.json("jobs", "--cursor", page["cursor"])
    assert {job["id"] for job in page["jobs"] + rest["jobs"]} == set(ids)
    assert len(page["jobs"]) == 3
    assert rest["cursor"] is None
    for filters, count in (
        (("--queue", "mail"), 3),
        (("--task", "a"), 2),
        (("--tag", "red"), 3),
        (("--text", "50%"), 3),
        (("--text", "50_"), 0),
        (("--state", "dead"), 0),
        (("--queue", "mail", "--task", "b", "--state", "ready"), 1),
    ):
        assert len(any_desk.json("jobs", *filters)["jobs"]) == count
    shown = any_desk.run("jobs", "--limit", "3")
    assert f"more jobs: --cursor {page['cursor']}" in shown.stderr
    assert all(job["id"] in shown.stdout for job in page["jobs"])
    assert "there is more" not in any_desk.run("jobs").stderr


@pytest.mark.parametrize("cursor", ["nonsense!", "bm9uc2Vuc2U", "WzEsIDJd", "MTI"])
def test_a_cursor_that_no_listing_gave_is_a_usage_error(pg_dsn: str, cursor: str) -> None:
    assert "is not a cursor" in Desk(pg_dsn).refused("jobs", "--cursor", cursor, code=2)


def test_the_keys_of_a_job_in_json(any_desk: Desk) -> None:
    id = brought(any_desk, State.RETRYING, payload='{"n": 1e400, "to": "ü"}')
    (listed,) = any_desk.json("jobs")["jobs"]
    (shown,) = any_desk.json("job", "show", id)["jobs"]
    more = {"running_since", "deadline", "timeline", "parent", "group", "steps"}
    assert (shown.keys() - listed.keys(), listed.keys() - shown.keys()) == (more, {"cut"})
    assert set(shown) == {
        *(
            "id",
            "task",
            "queue",
            "priority",
            "state",
            "reason",
            "attempt",
            "max_attempts",
            "deaths",
            "payload",
        ),
        *(
            "result",
            "errors",
            "checkpoint",
            "progress",
            "enqueued_at",
            "run_at",
            "claimed_at",
            "finished_at",
            "worker",
            "worker_label",
        ),
        *(
            "claim",
            "cancel_requested",
            "timeout",
            "expires",
            "unique_key",
            "fair_key",
            "ordering_key",
            "concurrency_key",
            "key_limit",
            "needs",
            "tags",
            "headers",
            "trace",
        ),
        *("replay_of", "chunked", "part", "after", "otherwise", "state_text", "why"),
        *more,
    }
    assert (shown["id"], shown["state"], shown["priority"]) == (id, "retrying", "normal")
    assert shown["payload"] == {"n": "1e400", "to": "ü"}
    assert shown["enqueued_at"].endswith("Z")
    (error,) = shown["errors"]
    assert (error["type"], error["message"], error["attempt"]) == ("ValueError", "boom", 1)
    assert error["at"].endswith("Z")


def test_m4_a_retrying_job_tells_its_tries_and_its_last_error(desk: Desk) -> None:
    id = brought(desk, State.RETRYING)
    assert "retrying (1 try)" in desk.ok("jobs")
    said = desk.ok("job", "show", id)
    assert "retrying (1 try)" in said
    assert "due in 59 min" in said
    assert "attempt 1, " in said
    assert "ValueError: boom" in said
    assert "Traceback" not in said
    assert "Traceback ..." in desk.ok("job", "show", id, "--traceback")


def test_m4_a_waiting_job_says_why(any_desk: Desk) -> None:
    async def fill(rig: Rig) -> str:
        (id,) = await rig.add("t", queue="mail")
        await rig.store.throttle("mail", 600)
        return str(id)

    id = any_desk.visit(fill)
    said = any_desk.ok("job", "show", id)
    assert "queue mail is throttled, resumes in 9 min" in said
    assert "no worker serves queue mail" in said
    any_desk.ok("queue", "warm", "mail")
    any_desk.ok("queue", "pause", "mail")
    assert "queue mail is paused" in any_desk.ok("job", "show", id)


def test_m4_a_listing_says_why_a_job_waits(any_desk: Desk) -> None:
    async def fill(rig: Rig) -> None:
        await rig.worker("mail")
        await rig.add("t", queue="mail")

    any_desk.visit(fill)
    any_desk.ok("queue", "pause", "mail")
    assert "queue mail is paused" in any_desk.ok("jobs")
    any_desk.ok("queue", "resume", "mail")
    assert "paused" not in any_desk.ok("jobs")


def test_m4_a_listing_says_what_went_wrong(desk: Desk) -> None:
    brought(desk, State.RETRYING)
    assert "ValueError: boom" in desk.ok("jobs")


def test_show_tells_progress_result_and_times(desk: Desk) -> None:
    async def run(rig: Rig) -> tuple[int, int, int]:
        worker = await rig.worker()
        running, ended = await rig.add("t", "t")
        first, second = await rig.claim(worker)
        await rig.store.checkpoint(worker, first, Checkpoint('{"line": 7}', done=1200, total=5000))
        await rig.finish(worker, second, result='{"sum": 8}')
        return running, ended, worker

    running, ended, worker = (str(id) for id in desk.visit(run))
    said = desk.ok("job", "show", running, ended).split("\n\n")
    assert f"w-{worker} (pid 1 on here), claim " in said[0]  # as `windlass workers` has it
    assert "1,200 of 5,000" in said[0]
    assert '{"line": 7}' in said[0]
    assert '{"sum": 8}' in said[1]
    assert "finished" in said[1]
    assert "took" in said[1]
    assert desk.json("job", "show", running)["jobs"][0]["progress"]["done"] == 1200


def test_w1_show_tells_the_steps_and_the_sleep_that_is_on(any_desk: Desk) -> None:
    async def run(rig: Rig) -> int:
        worker = await rig.worker()
        (id,) = await rig.add("t")
        job = await rig.run(worker, id)
        await rig.store.save_step(worker, job, Step(name="plan", result='{"n":8}', code="m.plan"))
        await rig.store.save_step(worker, job, Step(name="long", result=json.dumps("x" * 5000)))
        await rig.store.save_step(worker, job, Step(name="sleep", sleep=3600.0))
        await rig.finish(worker, job, Kind.SNOOZE, delay=3600)
        return id

    id = str(any_desk.visit(run))
    said = any_desk.ok("job", "show", id)
    assert re.search(r"plan, attempt 1, [\d-]+ [\d:]+ \S+ \(.+ ago\): ", said)  # as all other times
    assert re.search(r"asleep until [\d-]+ [\d:]+ \S+ \(in .+\)", said)
    assert '{"n": 8}' in said
    assert "x" * 500 not in said.replace("\n", "").replace(" ", "")
    plan, long, sleep = any_desk.json("job", "show", id)["jobs"][0]["steps"]
    assert (plan["name"], plan["code"], plan["wakes_at"]) == ("plan", "m.plan", None)
    assert (plan["result"], plan["cut"], plan["sleep"]) == ({"n": 8}, False, False)
    assert (len(long["result"]), long["cut"]) == (4_000, True)
    assert (sleep["result"], sleep["sleep"]) == (None, True)
    assert sleep["wakes_at"] > sleep["at"]


def test_m5_hostile_text_is_shown_as_text(desk: Desk) -> None:
    async def fail(rig: Rig) -> int:
        worker = await rig.worker()
        (id,) = await rig.add("t", payload=json.dumps({"a": HOSTILE}, ensure_ascii=False), tags=(HOSTILE,))
        job = await rig.run(worker, id)
        await rig.store.save_step(worker, job, Step(name=HOSTILE, result=json.dumps(HOSTILE), code=HOSTILE))
        await rig.finish(worker, job, Kind.DEAD, error=failure(HOSTILE))
        return id

    id = str(desk.visit(fail))
    for said in (
        desk.ok("jobs"),
        desk.ok("dead", "list"),
        desk.ok("job", "show", id, "--traceback"),
        desk.ok("job", "show", id, "--json"),
    ):
        assert "[red]x[/red]" in said
        assert not set(said) & set("\x1b\x07\u202e\u2028")


@pytest.mark.parametrize("verb", ["show", "retry", "cancel", "delete", "replay"])
def test_unknown_ids_are_named_and_the_others_dealt_with(desk: Desk, verb: str) -> None:
    id = brought(desk, State.DEAD if verb == "replay" else State.SCHEDULED)
    result = desk.run("job", verb, UNKNOWN, id)
    assert result.exit_code == 1
    assert f"no job {UNKNOWN}:" in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert id in result.stdout
    answer = json.loads(desk.run("job", verb, UNKNOWN, "--json").stdout)
    copy = {"id": UNKNOWN, "replayed_as": None}
    expected = {"show": {"jobs": []}, "replay": {"jobs": [copy]}}
    assert answer == expected.get(verb, {"answers": {UNKNOWN: "not_found"}})


@pytest.mark.parametrize("wrong", ["abc", "-1", "0", str(2**63), "٣", "1.0"])
def test_what_is_no_id_is_a_usage_error(desk: Desk, wrong: str) -> None:
    desk.refused("job", "show", "--", wrong, code=2)


def test_o6_retry(desk: Desk) -> None:
    dead = brought(desk, State.DEAD)
    ended = brought(desk, State.SUCCEEDED)
    assert desk.ok("job", "retry", dead) == f"{dead} retried\n"
    assert state(desk, dead) is State.READY
    result = desk.run("job", "retry", ended)
    assert result.exit_code == 1
    assert "unchanged: only dead" in result.stdout


def test_o5_cancel_and_delete(desk: Desk) -> None:
    running = brought(desk, State.RUNNING)
    waiting = brought(desk, State.SCHEDULED)
    assert desk.json("job", "cancel", waiting, running) == {
        "answers": {waiting: "cancelled", running: "requested"}
    }
    assert "its cancel was requested" in desk.ok("job", "show", running)
    assert "has already finished" in desk.run("job", "cancel", waiting).stdout
    assert desk.run("job", "cancel", waiting).exit_code == 1
    assert desk.ok("job", "delete", waiting) == f"{waiting} deleted\n"
    assert state(desk, waiting) is None


def test_e8_a_waiting_job_is_changed(any_desk: Desk) -> None:
    """[E8] It says who did it, and what."""
    id = brought(any_desk, State.READY)
    args = ("--queue", "mail", "--priority", "high", "--delay", "1h", "--tag", "x", "--args", '{"b": 2}')
    assert any_desk.ok("job", "change", id, *args) == f"{id} changed\n"
    (shown,) = any_desk.json("job", "show", id)["jobs"]
    assert (shown["queue"], shown["priority"], shown["state"]) == ("mail", "high", "scheduled")
    assert (shown["payload"], shown["tags"]) == ({"b": 2}, ["x"])
    (event,) = any_desk.json("events", "--job", id)["events"]
    assert event["text"] == "changed: queue mail, priority high, delay 3600.0, tags ('x',), kwargs"
    assert "say what to change" in any_desk.refused("job", "change", id)
    for text in ("{", "[" * 100_000):
        assert "not JSON" in any_desk.refused("job", "change", id, "--args", text, code=2)


def test_e8_what_does_not_wait_is_not_changed(desk: Desk) -> None:
    id = brought(desk, State.DEAD)
    result = desk.run("job", "change", id, "--priority", "low")
    assert (result.exit_code, result.output) == (1, f"{id} has ended; nothing was changed\n")
    assert "no job 999" in desk.refused("job", "change", "999", "--priority", "low")


def test_o6_replay_makes_a_copy_that_knows_its_origin(any_desk: Desk) -> None:
    id = brought(any_desk, State.SUCCEEDED, payload='{"a":1}')
    said = any_desk.ok("job", "replay", id)
    copy = said.rpartition(" ")[2].strip()
    assert said == f"{id} replayed as {copy}\n"
    (shown,) = any_desk.json("job", "show", copy)["jobs"]
    assert (shown["replay_of"], shown["payload"], shown["state"]) == (id, {"a": 1}, "ready")
    assert f"replay of  {id}" in any_desk.ok("job", "show", copy)


def test_o6_what_has_not_ended_is_not_replayed(desk: Desk) -> None:
    waiting, ended = brought(desk, State.SCHEDULED), brought(desk, State.DEAD)
    result = desk.run("job", "replay", waiting, ended)
    assert result.exit_code == 1
    assert f"job {waiting} is scheduled" in result.stderr
    assert f"{ended} replayed as " in result.stdout


def test_w2_a_wait_without_a_timeout_is_not_due_in_a_century(any_desk: Desk) -> None:
    async def wait(rig: Rig) -> int:
        worker = await rig.worker()
        (id,) = await rig.add("t")
        job = await rig.run(worker, id)
        await rig.store.wait_for_signal(worker, job, Wait(name="wait:go", signal="go"))
        await rig.finish(worker, job, Kind.SNOOZE, delay=MAX_DELAY)
        return id

    said = any_desk.ok("job", "show", str(any_desk.visit(wait)))
    assert "waits for signal go since" in said
    assert "due" not in said


def test_w2_waits_are_listed_and_answered(any_desk: Desk) -> None:
    async def wait(rig: Rig) -> int:
        worker = await rig.worker()
        (id,) = await rig.add("t")
        job = await rig.run(worker, id)
        asked = Wait(name="wait:go", signal="go", timeout=3600, shape=json.dumps(SHAPE))
        await rig.store.wait_for_signal(worker, job, asked)
        await rig.finish(worker, job, Kind.SNOOZE, delay=3600)
        return id

    id = str(any_desk.visit(wait))
    said = any_desk.ok("waits")
    assert id in said
    assert re.search(r"[\d-]+ [\d:]+ \S+ \(in .+\)", said)  # until when, as all other times
    (shown,) = any_desk.json("waits", "--signal", "go")["waits"]
    assert (shown["job"], shown["signal"]) == (id, "go")
    assert any_desk.json("waits", "--signal", "other") == {"waits": []}
    assert "waits for signal go since" in any_desk.ok("job", "show", id)
    keyed = ("job", "signal", id, "later", "1", "--idempotency-key", "k")
    assert [any_desk.json(*keyed)["answer"] for _ in range(2)] == ["kept", "repeated"]
    for text in ("yes", "[" * 2000):
        assert "is no JSON" in any_desk.refused("job", "signal", id, "go", text, code=2)
    wrong = any_desk.refused("job", "signal", id, "go", '{"ok": "maybe"}', code=2)
    assert "does not fit what the job waits for: 'ok' must be true or false" in " ".join(wrong.split())
    typo = any_desk.run("job", "signal", id, "goo")
    assert (typo.exit_code, typo.stdout) == (0, f"{id} goo kept\n")
    assert f"job {id} waits for go now, and for no signal goo" in typo.stderr
    assert "is not a job id" in any_desk.refused("job", "signal", "first", "go", code=2)
    assert any_desk.json("job", "signal", id, "go", '{"ok": true}')["answer"] == "delivered"
    assert any_desk.ok("job", "signal", id, "go") == f"{id} go kept\n"
    any_desk.visit(lambda rig: rig.store.cancel([int(id)]))
    assert "takes no signals" in any_desk.refused("job", "signal", id, "go")
    assert "there is no job" in any_desk.refused("job", "signal", UNKNOWN, "go")
