"""windlass queues, queue … and workers: how things stand, and managing them without a restart [K1] [K2]."""

import pytest

from tests.cli.kit import Desk
from tests.conformance.kit import Rig
from windlass.store.records import QueueRecord, WorkerInfo


def record(desk: Desk, name: str) -> QueueRecord:
    async def look(rig: Rig) -> QueueRecord:
        return (await rig.store.cluster_view([])).queues[name]

    return desk.visit(look)


def served(desk: Desk) -> None:
    """Two queues with jobs, one worker with two slots of mail."""

    async def fill(rig: Rig) -> None:
        await rig.add("a", "b", "c", queue="mail")
        await rig.add("d", queue="imports")
        await rig.store.register(
            WorkerInfo(id=7, label="box-worker-[b]1", host="box", pid=42, queues=("mail",))
        )
        term = await rig.store.lead(1, 30)
        assert term is not None
        await rig.store.assign(term, {7: {"mail": 2}})
        await rig.claim(7, "mail", limit=1)

    desk.visit(fill)


def test_queues_in_json(any_desk: Desk) -> None:
    served(any_desk)
    imports, mail = any_desk.json("queues")["queues"]
    assert (imports["name"], imports["ready"], imports["workers"], imports["slots"]) == (
        "imports",
        1,
        0,
        None,
    )
    assert (mail["name"], mail["ready"], mail["running"], mail["dead"]) == ("mail", 2, 1, 0)
    assert (mail["workers"], mail["slots"], mail["paused"], mail["cooling"]) == (1, 2, False, 0)
    assert 0 <= mail["oldest"] < 60


def test_m4_queues_tell_what_holds_them_up(desk: Desk) -> None:
    served(desk)
    desk.ok("queue", "pause", "imports")
    desk.visit(lambda rig: rig.store.throttle("mail", 600))
    said = desk.ok("queues")
    assert "paused" in said
    assert "throttled, resumes in 9 min" in said
    assert desk.json("queues")["queues"][1]["cooling"] > 500


def test_k2_pause_and_resume(desk: Desk) -> None:
    served(desk)
    assert desk.ok("queue", "pause", "mail", "imports") == "mail, imports paused\n"
    assert record(desk, "mail").paused
    assert desk.ok("queue", "resume", "mail") == "mail resumed\n"
    assert not record(desk, "mail").paused
    assert record(desk, "imports").paused


@pytest.mark.parametrize("verb", ["pause", "resume", "warm", "show"])
def test_a_mistyped_name_does_not_become_a_queue(desk: Desk, verb: str) -> None:
    served(desk)
    said = desk.refused("queue", verb, "mial")
    assert said == (
        "Error: no queue 'mial'; there are imports, mail; `windlass queue set NAME` or "
        "`app.queue(NAME).ensure()` declares one\n"
    )
    assert len(desk.json("queues")["queues"]) == 2


def test_o3_warm_ends_a_cool_down(desk: Desk) -> None:
    desk.visit(lambda rig: rig.store.throttle("mail", 600))
    assert record(desk, "mail").cooling > 0
    assert desk.ok("queue", "warm", "mail") == "mail is no longer cooling\n"
    assert record(desk, "mail").cooling == 0


def test_k1_set_changes_what_is_said_and_none_brings_the_default_back(any_desk: Desk) -> None:
    assert "retention       as the store says\n" in any_desk.ok("queue", "set", "mail")
    assert record(any_desk, "mail") == QueueRecord(name="mail")
    said = any_desk.ok(
        *("queue", "set", "mail", "--max-workers", "8", "--retention", "1h", "--dead-retention", "2d"),
        *("--window", "5", "--safety-bound", "10m", "--no-backoff", "--backoff-base", "1s"),
        *("--backoff-cap", "1m", "--cool-base", "2s", "--cool-cap", "3m"),
    )
    changed = QueueRecord(
        name="mail",
        max_workers=8,
        retention=3600,
        dead_retention=172800,
        window=5,
        safety_bound=600,
        backoff=False,
        backoff_base=1,
        backoff_cap=60,
        cool_base=2,
        cool_cap=180,
    )
    assert record(any_desk, "mail") == changed
    assert "max-workers     8\n" in said
    assert "safety-bound    10 min\n" in said
    assert "backoff         no\n" in said
    answer = any_desk.json("queue", "set", "mail", "--max-workers", "none", "--window", "None", "--backoff")
    assert answer["max_workers"] is None
    assert (answer["window"], answer["backoff"]) == (100, True)
    assert record(any_desk, "mail").retention == 3600


def test_f2_f3_f4_f5_the_settings_of_flow(any_desk: Desk) -> None:
    said = any_desk.ok(
        *("queue", "set", "crawl", "--concurrency", "5", "--governor", "on", "--rate-min", "2"),
        *("--rate-max", "600/m", "--max-depth", "1000", "--shed-depth", "5000", "--shed-wait", "10m"),
        *("--shed-latency", "500ms"),
    )
    assert "concurrency     5\n" in said
    assert "rate-max        10/s\n" in said
    assert "shed-wait       10 min\n" in said
    found = record(any_desk, "crawl")
    assert (found.concurrency, found.governor, found.rate_min, found.rate_max) == (5, True, 2, 10)
    assert (found.max_depth, found.shed_depth, found.shed_wait, found.shed_latency) == (1000, 5000, 600, 0.5)
    assert any_desk.ok("queue", "show", "crawl") == said
    assert any_desk.json("queue", "show", "crawl")["shed_latency"] == 0.5
    changed = any_desk.json("queue", "set", "crawl", "--governor", "off", "--concurrency", "none")
    assert (changed["governor"], changed["concurrency"], changed["max_depth"]) == (False, None, 1000)


def test_f4_m4_a_queue_that_is_full_says_so(desk: Desk) -> None:
    desk.ok("queue", "set", "mail", "--max-depth", "2", "--concurrency", "7")
    desk.visit(lambda rig: rig.add("a", "b", queue="mail"))
    refused = desk.run("enqueue", "c", "--queue", "mail")
    assert refused.exit_code == 1
    said = desk.ok("queues")
    assert "full, refuses new jobs (1 so far); at most 7 at a time" in said
    assert "pressure        full\n" in desk.ok("queue", "show", "mail")


def test_f2_queues_show_what_the_governor_allows(desk: Desk) -> None:
    desk.ok("queue", "set", "crawl", "--governor", "on", "--rate-max", "100/s")
    assert "governor 5/s" in desk.ok("queues")
    desk.ok("maintain", "governor", "--once")
    assert "governor 5/s, nothing waits" in desk.ok("queues")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("mail", "--governor", "perhaps"), 2),
        (("mail", "--rate-max", "fast"), 2),
        (("mail", "--max-depth", "0"), 2),
        (("mail", "--max-workers", "0"), 2),
        (("mail", "--retention", "soon"), 2),
        (("mail", "--window", "-1"), 2),
        (("mail", "--cool-cap", "0s"), 1),
        (("mail", "--retention", "8d"), 1),
        (("Mail!",), 1),
    ],
)
def test_settings_that_make_no_sense_are_refused(desk: Desk, arguments: tuple[str, ...], code: int) -> None:
    said = desk.refused("queue", "set", *arguments, code=code)
    assert code == 2 or len(said.splitlines()) == 1
    assert desk.json("queues")["queues"] == []


def test_workers(any_desk: Desk) -> None:
    served(any_desk)
    (worker,) = any_desk.json("workers")["workers"]
    assert (worker["id"], worker["label"], worker["host"], worker["pid"]) == (
        "7",
        "box-worker-[b]1",
        "box",
        42,
    )
    assert (worker["queues"], worker["slots"], worker["alive"]) == (["mail"], {"mail": 2}, True)
    assert worker["heartbeat_at"].endswith("Z")
    assert 0 <= worker["heartbeat_age"] < 60
    said = any_desk.ok("workers")
    assert "box-worker-[b]1" in said
    assert "ago" in said
