"""Tasks that run programs: what may run and where, how it ends, and that nothing is left of it [K8]."""

import asyncio
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.worker.handlers.process_groups import members, until_gone, written
from windlass import Dead, State, Windlass
from windlass.errors import CommandFailed, ConfigurationError, InvalidArguments
from windlass.tasks.commands import KEPT_OUTPUT, CommandResult, command_task
from windlass.tasks.task import AsyncTask

SH = shutil.which("sh") or "/bin/sh"


def script(folder: Path, name: str, text: str) -> str:
    path = folder / name
    path.write_text(f"#!{SH}\n{text}\n")
    path.chmod(0o755)
    return str(path)


def real(path: Path) -> str:
    return os.path.realpath(path)


def shell(app: Windlass, root: Path, **more: Any) -> AsyncTask[..., CommandResult]:
    """A task that may run sh: for tests it is the shortest way to any behaviour."""
    return command_task(app, "shell", allow=["sh"], root=root, **more)


# -- running --------------------------------------------------------------------------------------------


async def test_k8_a_command_runs_as_a_job(app: Windlass, tmp_path: Path) -> None:
    task = shell(app, tmp_path, queue="tools", tags=["tool"])
    good = await task.aenqueue(["sh", "-c", "echo done"])
    bad = await task.aenqueue(["sh", "-c", "exit 1"])
    foul = await task.aenqueue(["bash"])
    await app.arun_until_idle(queues=["tools"])
    result = await good.aresult()
    assert (result.code, result.output, result.truncated) == (0, "done\n", False)
    assert 0 < result.seconds < 60
    assert await bad.astatus() == State.RETRYING
    assert await foul.astatus() == State.DEAD


async def test_a_command_gets_its_arguments_input_and_directory(app: Windlass, tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    task = shell(app, tmp_path)
    text = 'printf "%s|" "$@"; pwd; cat; echo bad >&2'
    result = await task(["sh", "-c", text, "sh", "a  b", "*", "$HOME"], cwd="inner")
    assert result.output == f"a  b|*|$HOME|{real(tmp_path)}/inner\nbad\n"
    result = await task(argv=["sh", "-c", "tr a-z A-Z"], stdin="text\n" * 50_000)
    assert result.output == ("TEXT\n" * 50_000)[-KEPT_OUTPUT:]


async def test_a_command_need_not_read_its_input(app: Windlass, tmp_path: Path) -> None:
    result = await shell(app, tmp_path)(["sh", "-c", "exec 0<&-; echo done"], stdin="x" * 1_000_000)
    assert result.output == "done\n"


async def test_the_end_of_a_long_output_is_kept(app: Windlass, tmp_path: Path) -> None:
    task = command_task(app, "python", allow=[sys.executable], root=tmp_path)
    text = "import sys; sys.stdout.buffer.write('é'.encode() * 5_000_000 + b'!\\0\\xff')"
    result = await task([sys.executable, "-I", "-S", "-c", text])
    assert result.truncated
    assert result.output.endswith("éé!\ufffd\ufffd")
    assert result.output[0] == "é"
    assert len(result.output.encode()) in range(KEPT_OUTPUT - 2, KEPT_OUTPUT + 6)


async def test_the_environment_holds_no_secret(
    app: Windlass, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://me:secret@db/jobs")
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.delenv("LANG", raising=False)
    task = command_task(app, "env", allow=["env"], root=tmp_path, env={"MODE": "fast", "HOME": "/other"})
    lines = (await task(["env"])).output.splitlines()
    assert sorted(lines) == sorted([f"PATH={os.environ['PATH']}", "HOME=/other", "LANG=C.UTF-8", "MODE=fast"])


async def test_a_code_other_than_zero_is_a_failure(app: Windlass, tmp_path: Path) -> None:
    task = shell(app, tmp_path)
    with pytest.raises(
        CommandFailed, match=r"sh ended with code 3; its output ends with:\nline 11\n"
    ) as found:
        await task(["sh", "-c", "for i in $(seq 30); do echo line $i; done; exit 3"])
    assert found.value.result.code == 3
    assert found.value.result.output.startswith("line 1\n")
    with pytest.raises(CommandFailed, match="sh was killed by SIGSEGV, without any output"):
        await task(["sh", "-c", "kill -SEGV $$"])


# -- ending it ------------------------------------------------------------------------------------------

BACKGROUND = "sleep 1000 & sh -c 'sleep 1000 & sleep 1000' &"


async def test_k8_the_time_limit_kills_the_group(app: Windlass, tmp_path: Path) -> None:
    task = shell(app, tmp_path, timeout="1s")
    with pytest.raises(TimeoutError, match=r"longer than its time limit of 1 s and was killed.*\nstarted"):
        await task(["sh", "-c", f"{BACKGROUND} echo started; echo $$ >pid; sleep 1000"])
    leader = await written(tmp_path / "pid")
    assert not psutil.pid_exists(leader)
    await until_gone(leader)


async def test_k8_cancel_kills_the_group(app: Windlass, tmp_path: Path) -> None:
    task = command_task(
        app, "lasting", allow=[script(tmp_path, "lasting", f"{BACKGROUND} echo $$ >pid; wait")], root=tmp_path
    )
    call = asyncio.create_task(task([str(tmp_path / "lasting")]))
    leader = await written(tmp_path / "pid")
    assert len(members(leader)) >= 3
    call.cancel()
    await asyncio.sleep(0)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert not psutil.pid_exists(leader)
    await until_gone(leader)


async def test_k8_success_leaves_nothing_in_the_background(app: Windlass, tmp_path: Path) -> None:
    result = await shell(app, tmp_path)(["sh", "-c", f"{BACKGROUND} echo $$; echo done"])
    leader, done = result.output.split()
    assert done == "done"
    assert not psutil.pid_exists(int(leader))
    await until_gone(int(leader))


async def test_who_leaves_the_group_does_not_hold_up_the_job(app: Windlass, tmp_path: Path) -> None:
    task = shell(app, tmp_path, timeout="20s")
    text = "import os; os.setsid(); print(os.getpid(), file=open('pid', 'w'), flush=True); input()"
    lasting = f'{sys.executable} -I -S -c "{text}" <wait &'
    os.mkfifo(tmp_path / "wait")  # nobody ever writes to it, and our own end keeps it from ending
    with (tmp_path / "wait").open("r+b", buffering=0):
        result = await task(["sh", "-c", f"{lasting} while ! [ -s pid ]; do :; done; cat pid"])
        daemon = psutil.Process(int(result.output))
        assert daemon.is_running()  # it holds the output open, and yet the job has ended
        assert result.seconds < 15
        daemon.kill()


# -- what may run ---------------------------------------------------------------------------------------


async def refused(task: AsyncTask[..., CommandResult], says: str, *args: Any) -> None:
    with pytest.raises(Dead, match=says):
        await task(*args)


async def test_k8_only_what_is_allowed_runs(app: Windlass, tmp_path: Path) -> None:
    true = shutil.which("true") or "/bin/true"
    task = command_task(app, "limited", allow=["true", SH], root=tmp_path)
    os.symlink(SH, tmp_path / "true")
    (tmp_path / "link").symlink_to(true)
    assert (await task(["true"])).code == 0
    assert (await task([true])).code == 0
    assert (await task([SH, "-c", ":"])).code == 0
    for name in (
        "false",
        "./true",
        f"{true}/../true",
        str(tmp_path / "link"),
        f"/{true}",
        "true ",
        "",
        "TRUE",
    ):
        await refused(task, "may not be run: this task allows true, ", [name])
    await refused(task, "must be a list of a program", [])
    await refused(task, "must be a list of a program", "true; rm -rf /")
    await refused(task, r"argv\[1\] is int, not text", ["true", 1])
    await refused(task, r"argv\[1\] holds a NUL byte", ["true", "a\0b"])
    with pytest.raises(InvalidArguments):
        await task.aenqueue(["true", 1])


async def test_k8_a_name_means_what_it_meant_at_registration(
    app: Windlass, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good, bad = tmp_path / "good", tmp_path / "bad"
    for folder in (good, bad):
        folder.mkdir()
        script(folder, "tool", f"echo {folder.name}")
    monkeypatch.setenv("PATH", str(good), prepend=os.pathsep)
    task = command_task(app, "tool", allow=["tool"], root=tmp_path)
    monkeypatch.setenv("PATH", str(bad), prepend=os.pathsep)
    assert (await task(["tool"], cwd="bad")).output == "good\n"
    missing = command_task(app, "missing", allow=["no-such-tool"], root=tmp_path)
    with pytest.raises(FileNotFoundError, match="install it and restart the worker"):
        await missing(["no-such-tool"])


async def test_k8_a_command_stays_inside_its_root(app: Windlass, tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "root-too"
    for folder in (root, outside, root / "inner"):
        folder.mkdir()
    (root / "out").symlink_to(outside)
    (root / "in").symlink_to(root / "inner")
    (tmp_path / "alias").symlink_to(root)
    task = command_task(app, "pwd", allow=["pwd"], root=tmp_path / "alias")
    for cwd in (".", "", "inner/..", str(root), str(tmp_path / "alias")):
        assert (await task(["pwd"], cwd=cwd)).output == f"{real(root)}\n"
    assert (await task(["pwd"], "in")).output == f"{real(root)}/inner\n"
    for cwd in ("..", "out", "in/../..", "/", str(outside), "inner/../../root-too"):
        await refused(task, "outside of", ["pwd"], cwd)
    await refused(task, "cwd is", ["pwd"], "a\0b")
    with pytest.raises(FileNotFoundError):
        await task(["pwd"], "nowhere")


async def test_what_a_worker_lacks_is_told_when_it_starts(
    app: Windlass, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It starts: it may be there for other queues. A job that needs it fails and says what to do."""
    nowhere = tmp_path / "nowhere"
    command_task(app, "list", allow=["ls", "no-such-tool"], root=nowhere)
    task = command_task(app, "list", allow=["ls", "no-such-tool"], root=nowhere)  # a reloaded module
    assert caplog.text == ""
    with app.testing():
        await app.arun_until_idle()
    messages = [record.getMessage() for record in caplog.records]
    assert messages == [
        "task list: there is no program no-such-tool on this worker; its jobs fail on this worker",
        f"task list: its root {nowhere} is not a directory on this worker; its jobs fail on this worker",
    ]
    with pytest.raises(NotADirectoryError, match="create or mount it"):
        await task(["ls"])
    nowhere.mkdir()
    assert (await task(["ls"])).output == ""


def test_a_registration_that_cannot_work_is_refused(app: Windlass, tmp_path: Path) -> None:
    for allow in ("ls", [], [""], ["bin/ls"], ["../ls"], ["/bin/../bin/ls"], [".."], ["ls\0"]):
        with pytest.raises(ConfigurationError, match="task t: "):
            command_task(app, "t", allow=allow, root=tmp_path)
    for timeout in ("0s", "soon", -1):
        with pytest.raises(ConfigurationError, match="task t: timeout"):
            command_task(app, "t", allow=["ls"], root=tmp_path, timeout=timeout)
    command_task(app, "t", allow=["ls"], root=tmp_path)
    command_task(app, "t", allow=["ls"], root=tmp_path)  # the same again is a reloaded module
    with pytest.raises(ConfigurationError, match="two functions are registered as task t"):
        command_task(app, "t", allow=["ls", "rm"], root=tmp_path)
