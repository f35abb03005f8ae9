"""windlass enqueue: by name [E1], with options [E2], checked by annotations [E3], waited for [O8]."""

import json
import signal
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path

import pytest

from tests.cli.kit import Desk
from tests.conformance.kit import Rig, failure
from windlass import Windlass
from windlass.core.rollup import Sample
from windlass.core.states import Kind, State
from windlass.store.records import JobRecord, Report

SHOP = """
from windlass import Windlass, Retry

app = Windlass()
box = "not an app"

@app.task(name="shop.add", queue="sums", retry=Retry(1))
def add(a: int, b: int = 1) -> int:
    return a + b"""


def only_job(desk: Desk) -> JobRecord:
    (job,) = desk.visit(lambda rig: rig.listing())
    return job


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """An app in a module of the directory the command is run in."""
    (tmp_path / "cli_shop.py").write_text(SHOP)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "cli_shop", raising=False)
    return "cli_shop:app"


def test_e1_words_are_json_where_they_parse_and_text_otherwise(any_desk: Desk) -> None:
    said = any_desk.ok(
        "enqueue", "mail.send", "ada@example.org", "7", '"7"', "true", "{", "NaN", '{"a": [1]}'
    )
    job = only_job(any_desk)
    assert said == f"{job.id} enqueued\n"
    assert (job.task, job.queue) == ("mail.send", "default")
    assert json.loads(job.payload) == ["ada@example.org", 7, "7", True, "{", "NaN", {"a": [1]}]


@pytest.mark.parametrize(
    ("words", "payload"),
    [
        (["--args", '{"to": "ada"}'], {"to": "ada"}),
        (["--args", "[1, 2]"], [1, 2]),
        (["1", "--args", '{"to": "ada"}'], {"*": [1], "to": "ada"}),
        (["--args", '{"*": [1], "to": "ada"}'], {"*": [1], "to": "ada"}),
        (["--", "-5"], [-5]),
    ],
)
def test_e1_named_and_positional_arguments(desk: Desk, words: list[str], payload: object) -> None:
    desk.ok("enqueue", "t", *words)
    assert json.loads(only_job(desk).payload) == payload


def test_e2_every_option_reaches_the_job(desk: Desk) -> None:
    answer = desk.json(
        *("enqueue", "t", "--queue", "mail", "--priority", "high", "--delay", "5m", "--unique", "k"),
        *("--on-conflict", "reject", "--idempotency-key", "i", "--max-attempts", "3"),
        *("--tag", "red", "--tag", "big", "--header", "who=ada=me"),
    )
    job = only_job(desk)
    assert answer == {"id": str(job.id), "status": "scheduled", "task": "t"}
    assert (job.queue, job.priority, job.options.max_attempts) == ("mail", 1, 3)
    assert (job.options.unique_key, job.options.tags) == ("k", ("red", "big"))
    assert job.options.headers == {"who": "ada=me"}
    assert job.run_at is not None
    assert job.run_at == pytest.approx(time.time() + 300, abs=60)
    assert desk.json("enqueue", "t", "--idempotency-key", "i")["status"] == "repeated"
    assert "k" in desk.refused("enqueue", "t", "--unique", "k", "--on-conflict", "reject")


def test_e2_run_at_with_and_without_a_zone(desk: Desk) -> None:
    desk.ok("enqueue", "t", "--run-at", "2100-01-01T00:00:00+02:00")
    assert only_job(desk).run_at == 4102444800 - 7200
    (id,) = [desk.json("enqueue", "t", "--run-at", "2100-01-01 08:00")["id"]]
    record = desk.visit(lambda rig: rig.look(int(id)))
    assert record.run_at == datetime(2100, 1, 1, 8).astimezone().timestamp()


@pytest.mark.parametrize(
    ("arguments", "said", "code"),
    [
        (["Bad Name"], "use 1 to 64 of the characters", 1),
        (["t", "--queue", "Bad Queue"], "use 1 to 64 of the characters", 1),
        (["t", "--delay", "soon"], "write it like 500ms, 30s, 5m or 1h30m", 2),
        (["t", "--delay", "1s", "--run-at", "2100-01-01"], "give one of them", 1),
        (["t", "--run-at", "tomorrow"], "write 2030-01-31T08:00", 2),
        (["t", "--args", "{"], "write it in single quotes, like", 2),
        (["t", "--args", "7"], "give an object of named arguments", 2),
        (["t", "1", "--args", "[2]"], "give an object of named arguments", 2),
        (["t", "--args", '{"*": 7}'], "as an array", 2),
        (["t", "--header", "x"], "write KEY=TEXT", 2),
        (["t", "--wait", "often"], "put a bare --wait last", 2),
        (["t", "--app", "no_such_module:app"], "there is no module no_such_module", 1),
        ([], "Missing argument 'TASK'", 2),
    ],
)
def test_e4_what_is_refused_and_with_which_exit_code(
    desk: Desk, arguments: list[str], said: str, code: int
) -> None:
    refusal = desk.refused("enqueue", *arguments, code=code)
    assert said in " ".join(refusal.split())
    assert code == 2 or len(refusal.splitlines()) == 1
    assert desk.visit(lambda rig: rig.listing()) == []


def test_e3_the_app_checks_arguments_and_gives_queue_and_attempts(desk: Desk, shop: str) -> None:
    said = desk.refused("enqueue", "--app", shop, "shop.add", "one")
    assert "argument 'a'" in said
    desk.ok("enqueue", "--app", shop, "shop.add", "--args", '{"a": 1}')
    job = only_job(desk)
    assert (job.queue, job.options.max_attempts, job.payload) == ("sums", 1, '{"a":1}')


def test_a_task_or_app_that_is_not_there_is_named(desk: Desk, shop: str) -> None:
    assert "it has shop.add, windlass.echo" in desk.refused("enqueue", "--app", shop, "shop.sub")
    assert "not a Windlass app" in desk.refused("enqueue", "--app", "cli_shop:box", "shop.add")
    assert "has no nothing" in desk.refused("enqueue", "--app", "cli_shop:nothing", "shop.add")


def test_k9_tasks_of_the_modules_to_import_are_known(desk: Desk, shop: str, tmp_path: Path) -> None:
    more = 'from cli_shop import app\n\n@app.task(name="shop.more")\ndef more() -> None: ...\n'
    (tmp_path / "cli_shop_more.py").write_text(more)
    result = desk.run("enqueue", "--app", shop, "shop.more", WINDLASS_IMPORTS="cli_shop_more")
    sys.modules.pop("cli_shop_more", None)
    assert result.exit_code == 0, result.output


def test_flags_win_over_what_the_app_says(desk: Desk, shop: str, tmp_path: Path) -> None:
    other = f"sqlite:///{tmp_path.as_posix()}/other.db"
    desk.ok("enqueue", "--app", shop, "--database", other, "shop.add", "1")
    assert desk.visit(lambda rig: rig.listing()) == []
    assert len(Desk(other).visit(lambda rig: rig.listing())) == 1


def test_o8_wait_prints_the_result(desk: Desk) -> None:
    with desk.working("default", result='{"a": "[b]ü[/b]\\u001b"}'):
        said = desk.ok("enqueue", "t", "--wait", "60s").splitlines()
        answer = desk.json("enqueue", "t", "8", "--wait=60s")
    assert said[0].endswith(" enqueued")
    assert json.loads(said[1]) == {"a": "[b]ü[/b]\x1b"}
    assert (answer["state"], answer["result"]["a"], answer["error"]) == ("succeeded", "[b]ü[/b]\x1b", None)


def test_o8_wait_fails_with_the_job(desk: Desk) -> None:
    with desk.working("default", kind=Kind.DEAD, error=failure("[red]no[/red] \x1b[31m")):
        said = desk.refused("enqueue", "t", "--wait")
        result = desk.run("enqueue", "t", "--json", "--wait")
    assert "ended dead: ValueError: [red]no[/red] \\x1b[31m" in said
    assert "; see `windlass job show " in said
    assert result.exit_code == 1
    answer = json.loads(result.stdout)
    assert (answer["state"], answer["error"]["type"]) == ("dead", "ValueError")


def test_o8_waiting_in_vain_says_that_the_job_goes_on(desk: Desk) -> None:
    said = desk.refused("enqueue", "t", "--wait", "10ms")
    job = only_job(desk)
    assert f"job {job.id} did not finish within 0.01 s" in said
    assert f"windlass job show {job.id}" in said


def test_f3_f6_keys_and_debounce_reach_the_job(desk: Desk) -> None:
    desk.ok(
        "enqueue", "mail.send", "--fair-key", "f", "--ordering-key", "o", "--concurrency-key", "c",
        "--key-limit", "3", "--unique", "u", "--debounce", "1h",
    )  # fmt: skip
    job = only_job(desk)
    options = job.options
    assert (options.fair_key, options.ordering_key, options.concurrency_key) == ("f", "o", "c")
    assert (options.key_limit, options.unique_key) == (3, "u")
    assert job.run_at is not None
    assert job.run_at > time.time() + 3000


def test_e5_by_name_it_goes_to_the_queue_that_workers_publish(any_desk: Desk) -> None:
    app = Windlass(any_desk.url)

    @app.task(name="mail.send", queue="mail")
    def send(to: str) -> str:
        return f"to {to}"

    with app.worker(["mail"]):
        result = any_desk.run("enqueue", "mail.send", "ann", "--wait=60s")
        assert result.stdout.splitlines()[1] == '"to ann"'
        assert result.stderr == ""
        elsewhere = any_desk.run("enqueue", "mail.send", "bob", "--queue", "mial")
        assert "no live worker serves queue mial; the job waits until one does" in elsewhere.stderr
        unknown = any_desk.run("enqueue", "mail.sned", "cid", "--queue", "mail")
        assert "no live worker knows task mail.sned" in unknown.stderr
        assert {unknown.exit_code, elsewhere.exit_code} == {0}
    app.close()
    jobs = {job.id: job for job in any_desk.visit(lambda rig: rig.listing())}
    assert sorted(job.queue for job in jobs.values()) == ["mail", "mail", "mial"]


def test_a_misspelt_task_is_asked_about(any_desk: Desk) -> None:
    async def ran(rig: Rig) -> None:
        minute = int(await rig.store.now()) // 60 * 60
        sample = Sample(at=minute, queue="mail", task="mail.send", counts={"dead": 1})
        await rig.store.report(7, 1, Report(samples=[sample]))
        await rig.store.rollup()

    any_desk.visit(ran)
    assert any_desk.run("enqueue", "mail.sned").stderr.endswith("; did you mean mail.send?\n")
    assert "did you mean" not in any_desk.run("enqueue", "reports.build").stderr


def test_a_misspelt_task_is_asked_about_once(any_desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    """Live workers know it, and it has run."""

    async def known(rig: Rig) -> None:
        await rig.worker("mail", tasks={"mail.send": "mail"})
        minute = int(await rig.store.now()) // 60 * 60
        sample = Sample(at=minute, queue="mail", task="mail.send", counts={"dead": 1})
        await rig.store.report(7, 1, Report(samples=[sample]))
        await rig.store.rollup()

    any_desk.visit(known)
    for words in (["enqueue", "mail.sned"], ["enqueue", "mail.sned", "--queue", "mail"]):
        caplog.clear()
        said = any_desk.run(*words).stderr + caplog.text
        assert said.count("did you mean mail.send?") == 1, said


def test_e5_where_nobody_serves_it_that_is_said(any_desk: Desk) -> None:
    result = any_desk.run("enqueue", "mail.send", "--json")
    assert json.loads(result.stdout)["status"] == "enqueued"
    assert result.stderr == (
        "Note: no live worker knows task mail.send, so the job waits in queue default, which none serves. "
        "Serve it (windlass worker MODULE:APP -q default), or cancel the job and name its queue with --queue "
        "or --app\n"
    )
    named = any_desk.run("enqueue", "mail.send", "--queue", "mail").stderr
    assert named == (
        "Note: no live worker serves queue mail; the job waits until one does: "
        "windlass worker MODULE:APP -q mail\n"
    )


@pytest.mark.parametrize("more", [[], ["--json"]])
def test_o8_ctrl_c_ends_the_wait_and_not_the_job(desk: Desk, more: list[str]) -> None:
    """[O8] The id comes first, also into a pipe; then Ctrl-C says how to go on."""
    command = [sys.executable, "-m", "windlass", "enqueue", "t", "--database", desk.url, *more, "--wait"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as waiting:
        assert waiting.stdout is not None
        assert waiting.stderr is not None
        first = "" if more else waiting.stdout.readline()
        assert waiting.stderr.readline().startswith("Note: no live worker")  # it has been sent by now
        waiting.send_signal(signal.SIGINT)
        rest, said = waiting.communicate(timeout=60)
    job = only_job(desk)
    assert (first + rest, waiting.returncode) == ("" if more else f"{job.id} enqueued\n", 130)
    assert f"Job {job.id} goes on: `windlass job show {job.id}`" in said
    assert job.state is State.READY
