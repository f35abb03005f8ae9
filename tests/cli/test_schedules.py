"""windlass schedules …: what runs by the clock, and running it by hand [K4]."""

from datetime import UTC, datetime
from typing import Any

import pytest

from tests.cli.kit import Desk
from tests.conformance.kit import Rig
from windlass.cli.schedules import schedule_row
from windlass.operations.schedules import ScheduleView
from windlass.store.records import NewSchedule, ScheduleRecord


def seeded(desk: Desk, name: str = "daily", cron: str = "0 9 * * *", **given: Any) -> None:
    """A schedule as a worker puts it into the store; `due` seconds from now, an hour without it."""
    due, error = given.pop("due", 3600.0), given.pop("error", None)
    schedule = NewSchedule(name=name, cron=cron, task="report", queue="reports", payload='{"n":1}', **given)

    async def seed(rig: Rig) -> None:
        next_at = None if error else await rig.store.now() + due
        await rig.store.seed_schedule(schedule, next_at, error)

    desk.visit(seed)


def found(desk: Desk, name: str = "daily") -> ScheduleRecord:
    schedules = desk.visit(lambda rig: rig.store.schedules())
    return next(schedule for schedule in schedules if schedule.name == name)


def test_k4_list(any_desk: Desk) -> None:
    assert any_desk.json("schedules", "list") == {"schedules": []}
    seeded(any_desk, tz="Europe/Paris", jitter=5.0)
    seeded(any_desk, "wrong", "61 * * * *", error="'61 * * * *' is not a cron expression")
    daily, wrong = any_desk.json("schedules", "list")["schedules"]
    assert (daily["name"], daily["cron"], daily["tz"], daily["task"]) == (
        *("daily", "0 9 * * *", "Europe/Paris", "report"),
    )
    assert (daily["queue"], daily["priority"], daily["payload"]) == ("reports", "normal", {"n": 1})
    assert (daily["paused"], daily["last_at"], daily["error"], daily["skipped"]) == (False, None, None, 0)
    assert daily["next_at"].endswith("Z")
    assert (wrong["next_at"], wrong["error"]) == (None, "'61 * * * *' is not a cron expression")
    said = any_desk.ok("schedules", "list")
    assert "(in 59 min" in said
    assert "never" in said
    assert "is not a cron expression" in said


def test_k4_run_fires_now_whatever_the_pause_says(any_desk: Desk) -> None:
    seeded(any_desk)
    before = found(any_desk).next_at
    any_desk.ok("schedules", "pause", "daily")
    assert "daily made job " in any_desk.ok("schedules", "run", "daily")
    made = any_desk.json("schedules", "run", "daily")  # its last job has not ended: no matter, either
    (job,) = any_desk.json("job", "show", made["job"])["jobs"]
    assert (job["task"], job["queue"], job["payload"]) == ("report", "reports", {"n": 1})
    assert job["headers"]["windlass-schedule"] == "daily"
    record = found(any_desk)
    assert (record.next_at, record.paused, str(record.last_job)) == (before, True, made["job"])


def test_k4_pause_and_resume_from_the_next_time_on(any_desk: Desk) -> None:
    seeded(any_desk, due=-86400.0)
    assert any_desk.ok("schedules", "pause", "daily") == "daily paused\n"
    assert found(any_desk).paused
    assert "paused" in any_desk.ok("schedules", "list")
    said = any_desk.ok("schedules", "resume", "daily")
    assert said.startswith("daily resumed; it fires next ")
    assert "09:00:00 UTC (in " in said
    record = found(any_desk)
    now = any_desk.visit(lambda rig: rig.store.now())
    assert not record.paused
    assert record.next_at is not None
    assert now < record.next_at <= now + 86400


def test_k4_next_times_in_its_own_zone(desk: Desk) -> None:
    seeded(desk, cron="30 9 * * MON-FRI", tz="Asia/Kolkata")
    lines = desk.ok("schedules", "next", "daily").splitlines()
    assert len(lines) == 5
    assert all("09:30:00 IST (in " in line for line in lines)
    times = desk.json("schedules", "next", "daily", "-n", "2")["times"]
    assert len(times) == 2
    assert all(time.endswith("T04:00:00.000Z") for time in times)


def test_k4_backfill(any_desk: Desk) -> None:
    seeded(any_desk, tz="Europe/Paris")
    span = ("--from", "2026-03-28", "--to", "2026-03-31")
    said = any_desk.ok("schedules", "backfill", "daily", *span, "--dry-run")
    assert said == "daily has 3 times in this span: 2026-03-28 09:00 CET to 2026-03-30 09:00 CEST\n"
    assert any_desk.json("jobs")["jobs"] == []
    said = any_desk.ok("schedules", "backfill", "daily", *span)
    assert said.endswith("\n3 jobs made\n")
    times = {job["headers"]["windlass-scheduled-for"] for job in any_desk.json("jobs")["jobs"]}
    assert {datetime.fromisoformat(time).astimezone(UTC).isoformat() for time in times} == {
        "2026-03-28T08:00:00+00:00",
        "2026-03-29T07:00:00+00:00",
        "2026-03-30T07:00:00+00:00",
    }
    one = ("--from", "2026-04-01T09:00+02:00", "--to", "2026-04-01T09:01+02:00")
    answer = any_desk.json("schedules", "backfill", "daily", *one)
    assert answer == {"schedule": "daily", "times": ["2026-04-01T07:00:00.000Z"], "made": 1}
    assert found(any_desk).next_at is not None


def test_k4_backfill_of_nothing_and_of_too_much(desk: Desk) -> None:
    seeded(desk, cron="* * * * *")
    none = desk.ok(
        "schedules", "backfill", "daily", "--from", "2026-01-01T00:00:05", "--to", "2026-01-01T00:00:09"
    )
    assert none == "daily has 0 times in this span\n0 jobs made\n"
    assert "earlier time first" in desk.refused(
        "schedules", "backfill", "daily", "--from", "2026-01-02", "--to", "2026-01-01"
    )
    assert "shorter span" in desk.refused(
        "schedules", "backfill", "daily", "--from", "2025-01-01", "--to", "2026-01-01"
    )
    assert "is not a time" in desk.refused(
        "schedules", "backfill", "daily", "--from", "soon", "--to", "2026-01-01", code=2
    )
    assert desk.json("jobs")["jobs"] == []


def test_k4_add_set_and_revert(any_desk: Desk) -> None:
    """[K4] Made at run time, changed, and back to what the code declares."""
    said = any_desk.ok("schedules", "add", "eu", "sweep", "eu", "--every", "10s", "--queue", "reports")
    assert "@every 10s" in said
    assert "made at run time" in said
    again = any_desk.refused("schedules", "add", "eu", "sweep", "--cron", "@daily")
    assert "there is a schedule eu already" in again
    made = any_desk.json(
        "schedules", "set", "eu", "--cron", "0 9 * * *", "--tz", "Asia/Tokyo", "--overlap", "queue"
    )
    assert (made["cron"], made["tz"], made["overlap"], made["payload"]) == (
        *("0 9 * * *", "Asia/Tokyo", "queue", ["eu"]),
    )
    tagged = any_desk.json("schedules", "set", "eu", "--priority", "high")
    assert (tagged["priority"], tagged["queue"], tagged["payload"]) == ("high", "reports", ["eu"])
    other = any_desk.json("schedules", "set", "eu", "--args", '{"region": "fr"}')
    assert (other["payload"], other["queue"], other["origin"]) == ({"region": "fr"}, "reports", "live")
    assert "no code declares it" in any_desk.refused("schedules", "revert", "eu")
    seeded(any_desk)
    any_desk.ok("schedules", "set", "daily", "--cron", "0 8 * * *")
    listed = {each["name"]: each for each in any_desk.json("schedules", "list")["schedules"]}
    assert (listed["daily"]["origin"], listed["daily"]["differences"]) == ("changed", {"cron": "0 9 * * *"})
    assert "changed at run time" in any_desk.ok("schedules", "list")
    assert any_desk.json("schedules", "revert", "daily")["origin"] == "code"


def test_k4_e5_another_task_brings_the_queue_that_workers_publish(any_desk: Desk) -> None:
    seeded(any_desk)
    any_desk.visit(lambda rig: rig.worker("mail", tasks={"mail.send": "mail"}))
    other = any_desk.json("schedules", "set", "daily", "--task", "mail.send", "--args", "[7]")
    assert (other["task"], other["queue"], other["payload"]) == ("mail.send", "mail", [7])


def test_k4_what_is_done_is_printed_as_the_api_answers_it(any_desk: Desk) -> None:
    seeded(any_desk)
    assert any_desk.json("schedules", "pause", "daily")["state_text"] == "paused"
    resumed = any_desk.json("schedules", "resume", "daily")
    assert (resumed["state_text"], len(resumed["upcoming"])) == ("", 3)
    assert any_desk.json("schedules", "next", "daily", "-n", "1")["tz"] == "UTC"
    assert any_desk.json("schedules", "remove", "daily") == {"removed": "daily"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--cron", "61 * * * *"), "Error: schedule eu: '61 * * * *' is not a cron expression"),
        (("--cron", "@daily", "--tz", "Mars/Olympus"), "Error: schedule eu: there is no time zone"),
        (("--every", "1ms"), "Error: schedule eu: every='1ms' cannot be kept"),
    ],
)
def test_k4_one_that_makes_no_sense_is_not_made(desk: Desk, words: tuple[str, ...], said: str) -> None:
    seeded(desk, "other")
    assert desk.refused("schedules", "add", "eu", "sweep", *words).startswith(said)
    assert [each["name"] for each in desk.json("schedules", "list")["schedules"]] == ["other"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("add", "eu", "sweep"), "say when it fires: --cron or --every"),
        (("add", "eu", "sweep", "--cron", "@daily", "--every", "5s"), "--cron and --every are mutually excl"),
        (("set", "other", "--cron", "@daily", "--every", "5s"), "--cron and --every are mutually exclusive"),
        (("add", "eu", "sweep", "--cron", "@daily", "--delay", "5s"), "No such option"),
        (("set", "other", "--debounce", "5s"), "No such option"),
    ],
)
def test_k4_its_options_are_those_that_a_schedule_can_keep(
    desk: Desk, words: tuple[str, ...], said: str
) -> None:
    seeded(desk, "other")
    assert said in " ".join(desk.refused("schedules", *words, code=2).split())


def test_k4_remove(any_desk: Desk) -> None:
    seeded(any_desk)
    assert any_desk.ok("schedules", "remove", "daily").startswith("daily is removed; ")
    assert any_desk.json("schedules", "list") == {"schedules": []}


@pytest.mark.parametrize("verb", ["run", "pause", "resume", "next", "remove"])
def test_a_schedule_that_is_none(desk: Desk, verb: str) -> None:
    said = desk.refused("schedules", verb, "daliy")
    assert said == "Error: there is no schedule 'daliy'; `windlass schedules list` shows those there are\n"


@pytest.mark.parametrize("verb", ["resume", "next"])
def test_k4_one_whose_expression_is_wrong(desk: Desk, verb: str) -> None:
    seeded(desk, cron="61 * * * *", error="bad")
    said = desk.refused("schedules", verb, "daily")
    assert said.startswith("Error: schedule daily: '61 * * * *' is not a cron expression")
    assert len(said.splitlines()) == 1


def test_a_row_tells_all_that_is_wrong() -> None:
    record = ScheduleRecord(name="x", cron="* * * * *", task="t", paused=True, error="boom", skipped=1234)
    *_, next_, last, skipped, state = schedule_row(ScheduleView.of(record, 0.0, []))
    assert (next_, last, skipped, state) == ("never", None, "1,234", "paused; boom; made at run time")
