"""windlass tasks, task set and reconcile: settings without a change of code [P6], gaps filled now [K5]; and
jobs that come after others, as they are made and shown [P12]."""

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.kit import Desk
from tests.conformance.kit import Rig
from windlass.core.states import Kind, State
from windlass.store.records import TaskRecord

CATALOG = """
from windlass import Windlass

app = Windlass()
bare = Windlass()
opened = []

@app.on_start
def open_catalog():
    opened.append(["a", "b", "c"])

@app.task(name="embed")
def embed(operation: str) -> None: ...

@embed.find_gaps
def missing():
    for operation in opened[-1]:
        yield {"operation": operation}

@app.task(name="crawl", queue="web")
async def crawl(page: int) -> None: ...

@crawl.find_gaps(every="1h")
async def pages():
    yield (1,)

@app.task(name="plain")
def plain() -> None: ...
"""


@pytest.fixture
def catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """An app two of whose tasks say what is missing."""
    (tmp_path / "cli_catalog.py").write_text(CATALOG)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "cli_catalog", raising=False)
    return "cli_catalog:app"


def record(desk: Desk) -> list[TaskRecord]:
    return desk.visit(lambda rig: rig.store.tasks())


def listed(desk: Desk, name: str, *arguments: str) -> dict[str, Any]:
    """Return the entry of a task in `windlass tasks --json`."""
    (found,) = [task for task in desk.json("tasks", *arguments)["tasks"] if task["name"] == name]
    return dict(found)


# -- settings [P6] --------------------------------------------------------------------------------------


def test_p6_settings_change_and_go_back_to_what_the_code_says(any_desk: Desk) -> None:
    assert "embed" not in any_desk.ok("tasks")
    said = any_desk.ok("task", "set", "embed", "--batch", "32", "--batch-timeout", "2m", "--parallel", "4")
    assert said.startswith("batch            32\nbatch-timeout    2 min\nparallel         4\n")
    assert record(any_desk) == [TaskRecord(name="embed", batch=32, batch_timeout=120, parallel=4)]
    view = listed(any_desk, "embed")
    assert (view["batch"], view["batch_timeout"], view["parallel"], view["known"]) == (32, 120, 4, False)
    said = any_desk.ok("task", "set", "embed", "--batch", "default", "--batch-timeout", "Default")
    assert said.startswith("batch            default\nbatch-timeout    default\nparallel         4\n")
    (shown,) = [line for line in any_desk.ok("tasks").splitlines() if line.startswith("embed")]
    assert shown.split() == ["embed", "0", "default", "default", "4", "default", "default", "default"]
    assert any_desk.json("task", "set", "embed")["parallel"] == 4
    any_desk.ok("task", "set", "embed", "--parallel", "default")
    assert record(any_desk) == []


def test_p13_a_chunk_is_a_size_or_a_number(any_desk: Desk) -> None:
    """[P13] In the unit of the task's splitter, which the store does not know."""
    assert "chunk            134,217,728\n" in any_desk.ok("task", "set", "embed", "--chunk", "128MiB")
    assert record(any_desk) == [TaskRecord(name="embed", chunk=128 * 1024 * 1024)]
    assert "134,217,728" in any_desk.ok("tasks")
    assert any_desk.json("task", "set", "embed", "--chunk", "50")["chunk"] == 50
    assert listed(any_desk, "embed")["chunk"] == 50
    any_desk.ok("task", "set", "embed", "--chunk", "default")
    assert record(any_desk) == []


def test_f3_limits_of_a_task(any_desk: Desk) -> None:
    said = any_desk.ok("task", "set", "embed", "--concurrency", "1500", "--key-concurrency", "2")
    assert said.endswith("concurrency      1,500\nkey-concurrency  2\n")
    assert record(any_desk) == [TaskRecord(name="embed", concurrency=1500, key_concurrency=2)]
    assert "1,500" in any_desk.ok("tasks")
    any_desk.ok("task", "set", "embed", "--concurrency", "default", "--key-concurrency", "default")
    assert record(any_desk) == []
    any_desk.refused("task", "set", "embed", "--concurrency", "0", code=2)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("embed", "--batch", "0"), 2),
        (("embed", "--batch", "none"), 2),
        (("embed", "--batch-timeout", "soon"), 2),
        (("embed", "--batch-timeout", "0s"), 1),
        (("embed", "--parallel", "-1"), 2),
        (("embed", "--chunk", "0"), 2),
        (("embed", "--chunk", "128 MiBs"), 2),
        (("Embed!", "--batch", "3"), 1),
    ],
)
def test_settings_that_make_no_sense_are_refused(desk: Desk, arguments: tuple[str, ...], code: int) -> None:
    said = desk.refused("task", "set", *arguments, code=code)
    assert code == 2 or len(said.splitlines()) == 1
    assert record(desk) == []


def test_with_an_app_a_mistyped_name_is_refused(desk: Desk, catalog: str) -> None:
    said = desk.refused("task", "set", "embde", "--batch", "3", "--app", catalog)
    assert "has no task 'embde'; did you mean" in said
    assert record(desk) == []
    desk.ok("task", "set", "embed", "--batch", "3", "--app", catalog)
    known = listed(desk, "crawl", "--app", catalog)
    assert (known["known"], known["queue"], known["ready"], known["batch"]) == (True, "web", 0, None)


# -- gaps [K5] ------------------------------------------------------------------------------------------


def test_k5_reconcile_enqueues_what_is_missing(any_desk: Desk, catalog: str) -> None:
    """[K5] Of all tasks, with what their start hooks open; what is under way is not enqueued again."""
    crawl, embed = any_desk.json("reconcile", catalog)["reconciled"]
    assert crawl == {"task": "crawl", "found": 1, "enqueued": 1, "under_way": 0, "parked": 0}
    assert embed == {"task": "embed", "found": 3, "enqueued": 3, "under_way": 0, "parked": 0}
    (again,) = any_desk.json("reconcile", catalog, "embed")["reconciled"]
    assert (again["enqueued"], again["under_way"]) == (0, 3)
    said = any_desk.ok("reconcile", catalog)
    assert "under way" in said
    assert "embed" in said
    assert len(any_desk.json("jobs", "--task", "embed")["jobs"]) == 3


def test_o7_reconcile_tells_what_is_parked(desk: Desk, catalog: str) -> None:
    async def die(rig: Rig) -> None:
        worker = await rig.worker()
        await rig.finish(worker, await rig.claim(worker, "web"), Kind.DEAD)

    for _ in range(3):
        desk.ok("reconcile", catalog, "crawl")
        desk.visit(die)
    (found,) = desk.json("reconcile", catalog, "crawl")["reconciled"]
    assert (found["found"], found["enqueued"], found["parked"]) == (1, 0, 1)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("cli_catalog:app", "plain"), "task plain has no find_gaps function"),
        (("cli_catalog:app", "embde"), "has no task 'embde'"),
        (("cli_catalog:bare",), "no task of cli_catalog:bare has a find_gaps function"),
        (("cli_catalog:box",), "has no box"),
    ],
)
def test_what_cannot_be_reconciled(desk: Desk, catalog: str, arguments: tuple[str, ...], said: str) -> None:
    refusal = desk.refused("reconcile", *arguments)
    assert said in refusal
    assert len(refusal.splitlines()) == 1


# -- after [P12] ----------------------------------------------------------------------------------------


def test_p12_a_job_that_comes_after_others(any_desk: Desk) -> None:
    first, second = (any_desk.json("enqueue", "t")["id"] for _ in range(2))
    made = any_desk.json("enqueue", "late", "--after", first, "--after", second, "--otherwise", "run")
    (shown,) = any_desk.json("job", "show", made["id"])["jobs"]
    assert (shown["state"], shown["after"], shown["otherwise"]) == ("scheduled", [first, second], "run")
    said = any_desk.ok("job", "show", made["id"])
    assert f"after      {first}, {second}\notherwise  run\n" in said
    assert "waits for job" in said
    assert "due" not in said

    async def run(rig: Rig) -> State | None:
        worker = await rig.worker()
        await rig.finish(worker, await rig.claim(worker))
        await rig.store.promote()
        return await rig.state(int(made["id"]))

    assert any_desk.visit(run) is State.READY


def test_after_what_is_no_job(desk: Desk) -> None:
    desk.refused("enqueue", "late", "--after", "first", code=2)
    desk.refused("enqueue", "late", "--after", "1", "--otherwise", "never", code=2)
    first = desk.json("enqueue", "t")["id"]
    assert "leave them out" in desk.refused("enqueue", "late", "--after", first, "--delay", "5m")
    assert len(desk.json("jobs")["jobs"]) == 1
