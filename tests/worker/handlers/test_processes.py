"""Plain Python functions in processes of their own: what goes over, comes back and stays behind [K8]."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.worker.handlers import process_tasks as tasks
from tests.worker.handlers.process_groups import members, until_gone, written
from windlass.endings import Dead, Retry
from windlass.errors import ConfigurationError, PoolError, RemoteError
from windlass.tasks.task import RegisteredTask
from windlass.worker.handlers import pool
from windlass.worker.handlers.processes import Processes
from windlass.worker.handlers.python_child import Request, find_task

REPOSITORY = Path(__file__).parents[3]


@pytest.fixture
async def processes() -> AsyncIterator[Processes]:
    processes = Processes(1)
    yield processes
    await processes.close()


async def run(processes: Processes, task: RegisteredTask[..., Any], *args: Any) -> Any:
    return task.signature.decode_result(await processes.run(task, task.signature.encode(args, {})))


async def test_a_function_runs_in_a_warm_child(processes: Processes) -> None:
    assert await run(processes, tasks.add, 2, 3) == 5
    assert await run(processes, tasks.add, 2) == 3
    assert await run(processes, tasks.double, tasks.Order(4)) == tasks.Order(8)
    assert await processes.run(tasks.nothing, "{}") is None
    pid, calls, in_main_thread = await run(processes, tasks.where)
    assert (calls, in_main_thread) == (1, True)
    assert pid != os.getpid()
    assert await run(processes, tasks.where) == (pid, 2, True)


async def test_what_it_prints_disturbs_nothing(
    processes: Processes, capsys: pytest.CaptureFixture[str]
) -> None:
    assert await run(processes, tasks.talk) == ""
    assert await run(processes, tasks.add, 1) == 2
    await processes.close()
    shown = capsys.readouterr()
    assert shown.out == ""
    for words in ("said by print", "said by fd 1", "said by a child", "no newline"):
        assert words in shown.err


async def test_what_it_raises_comes_out_with_its_traceback(processes: Processes) -> None:
    with pytest.raises(RemoteError) as raised:
        await run(processes, tasks.fail)
    error = raised.value
    assert str(error) == "it \\0 is \\ud800 wrong"
    assert error.remote_type == "ValueError"
    assert "KeyError: 'the cause'" in error.remote_traceback
    assert "process_tasks.py" in error.remote_traceback
    assert "python_child.py" not in error.remote_traceback
    with pytest.raises(RemoteError) as left:
        await run(processes, tasks.leave, 4)
    assert (left.value.remote_type, str(left.value)) == ("SystemExit", "4")
    with pytest.raises(RemoteError, match="argument 'left'") as unfit:
        await processes.run(tasks.add, '{"left": "x"}')
    assert unfit.value.remote_type == "windlass.errors.InvalidArguments"
    assert (await run(processes, tasks.where))[1] == 1  # the child survived all of it


async def test_o1_signals_come_out_as_they_were(processes: Processes) -> None:
    for name, sent in tasks.SIGNALS.items():
        kind = Dead if isinstance(sent, Dead) else type(sent)
        with pytest.raises(kind) as raised:
            await run(processes, tasks.signal, name)
        got = {key: value for key, value in vars(raised.value).items() if key != "__notes__"}
        assert (str(raised.value), got) == (str(sent), vars(sent))
        assert "process_tasks.py" in raised.value.__notes__[0]


async def test_a_signal_keeps_its_cause(processes: Processes) -> None:
    with pytest.raises(Retry) as raised:
        await run(processes, tasks.retry_because)
    cause = raised.value.__cause__
    assert isinstance(cause, RemoteError)
    assert (cause.remote_type, str(cause)) == ("OSError", "the line is cut")
    with pytest.raises(RemoteError) as odd:
        await run(processes, tasks.odd)
    assert odd.value.remote_type == "tests.worker.handlers.process_tasks.Odd"
    with pytest.raises(Dead, match="its return value cannot be kept"):
        await run(processes, tasks.unkeepable)


async def test_k8_a_function_that_takes_the_process_down_fails_alone(processes: Processes) -> None:
    with pytest.raises(PoolError, match="ended with code 7 before it answered") as raised:
        await run(processes, tasks.crash)
    assert raised.value.stderr == "last words\n"
    assert await run(processes, tasks.add, 1) == 2


async def test_k8_on_cancel_and_timeout_all_it_has_started_dies(processes: Processes, tmp_path: Path) -> None:
    message = tmp_path / "told"
    payload = tasks.hang.signature.encode([str(message)], {})
    call = asyncio.create_task(processes.run(tasks.hang, payload))
    first = await written(message)
    assert len(members(first)) == 2
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert not psutil.pid_exists(first)
    await until_gone(first)
    second, *_ = await run(processes, tasks.where)
    with pytest.raises(TimeoutError):
        await processes.run(tasks.hang, payload, timeout=0.3)
    assert not psutil.pid_exists(second)
    await until_gone(second)


async def test_what_is_killed_says_where_it_stood(
    processes: Processes, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Once: in the exception, for whoever logs it."""
    message = tmp_path / "told"
    payload = tasks.hang.signature.encode([str(message)], {})
    call = asyncio.create_task(processes.run(tasks.hang, payload))
    await written(message)
    call.cancel()
    with pytest.raises(asyncio.CancelledError) as cancelled:
        await call
    assert "process_tasks.py" in cancelled.value.__notes__[0]
    assert "in hang" in cancelled.value.__notes__[0]
    assert "in hang" not in capfd.readouterr().err


async def test_who_has_said_where_it_stood_is_gone(
    processes: Processes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[O5] It was waited for more words, for 30 ms, with every cancel."""
    monkeypatch.setattr(pool, "QUIET", 3600.0)
    monkeypatch.setattr(pool, "STACK", 3600.0)
    message = tmp_path / "told"
    call = asyncio.create_task(processes.run(tasks.hang, tasks.hang.signature.encode([str(message)], {})))
    first = await written(message)
    call.cancel()
    with pytest.raises(asyncio.CancelledError) as cancelled:
        await call
    assert "in hang" in cancelled.value.__notes__[0]
    await until_gone(first)


async def test_no_job_waits_for_a_child_by_default(tmp_path: Path) -> None:
    """A job that waits for a process spends the time that it was given."""
    processes = Processes()
    files = [tmp_path / str(number) for number in range((os.cpu_count() or 1) + 1)]
    calls = [
        asyncio.create_task(processes.run(tasks.hang, tasks.hang.signature.encode([str(file)], {})))
        for file in files
    ]
    assert len({await written(file, 60) for file in files}) == len(files)
    await processes.close()
    assert all(isinstance(end, PoolError) for end in await asyncio.gather(*calls, return_exceptions=True))


PARENT = """
import asyncio, sys
from tests.worker.handlers import process_tasks as tasks
from windlass.worker.handlers.processes import Processes

async def main():
    await Processes(1).run(tasks.hang, tasks.hang.signature.encode([sys.argv[1]], {}))

asyncio.run(main())
"""


async def test_k8_no_orphan_stays_when_the_parent_is_killed(tmp_path: Path) -> None:
    message = tmp_path / "told"
    parent = subprocess.Popen([sys.executable, "-c", PARENT, str(message)], cwd=REPOSITORY)  # noqa: ASYNC220
    child = await written(message)
    assert len(members(child)) == 2
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    await until_gone(child)


async def test_a_task_is_found_through_its_app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "shop_app.py").write_text(
        "from windlass import Windlass\n"
        "app = Windlass('sqlite:///:memory:')\n"
        "def make_app():\n    return app\n"
    )
    (tmp_path / "shop_tasks.py").write_text(
        "from shop_app import app as _\ndef make():\n    @_.task(name='inner')\n    def inner():\n"
        "        return 'found'\n    return inner\nmake()\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    from shop_app import app  # type: ignore[import-not-found]

    __import__("shop_tasks")
    processes = Processes(1, "shop_app:app")
    assert await processes.run(app.tasks["inner"], "{}") == '"found"'
    await processes.close()
    made = Processes(1, "shop_app:make_app()")
    assert await made.run(app.tasks["inner"], "{}") == '"found"'
    await made.close()
    wrong = Processes(1, "shop_tasks:make")
    with pytest.raises(RemoteError, match="shop_tasks:make is function, not a Windlass app"):
        await wrong.run(app.tasks["inner"], "{}")
    await wrong.close()


async def test_a_task_that_no_other_process_can_find_says_so(processes: Processes) -> None:
    with pytest.raises(RemoteError, match="define its function at the top level") as raised:
        await run(processes, tasks.make_local())
    assert raised.value.remote_type == "windlass.errors.ConfigurationError"


SCRIPT = """
import asyncio
import msgspec
from windlass import Windlass
from windlass.worker.handlers.processes import Processes

app = Windlass("sqlite:///:memory:")

class Order(msgspec.Struct):
    number: int

@app.task(mode="process")
def double(order: Order) -> list:
    return [Order(order.number * 2), double.name, __name__]

async def main():
    processes = Processes(1)
    print(await processes.run(double, '{"order": {"number": 21}}'))
    await processes.close()

if __name__ == "__main__":
    asyncio.run(main())
"""


def test_a_script_runs_its_own_functions(tmp_path: Path) -> None:
    (tmp_path / "my-shop.py").write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, "my-shop.py"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout == '[{"number":42},"my-shop.double","my-shop"]\n'
    assert done.stderr == ""
    (tmp_path / "shop.py").write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, "-m", "shop"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout == '[{"number":42},"shop.double","shop"]\n'


def test_a_script_that_hides_a_module_is_refused(tmp_path: Path) -> None:
    request = Request(
        task="json.double", payload="{}", module="json", script=str(tmp_path / "json.py"), path=sys.path
    )
    with pytest.raises(ConfigurationError, match="a module json exists already; rename the script"):
        find_task(request)


@pytest.mark.parametrize("how", ["-c", "-"])
def test_what_was_typed_in_is_refused(how: str) -> None:
    argv = [sys.executable, "-c", SCRIPT] if how == "-c" else [sys.executable, "-"]
    done = subprocess.run(argv, check=False, input=SCRIPT, capture_output=True, text=True)
    assert done.returncode == 1
    assert "defined at a prompt or in a notebook" in done.stderr


def test_a_dunder_main_is_refused(tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "__main__.py").write_text(SCRIPT)
    for argv in (["-m", "shop"], ["shop"]):
        done = subprocess.run(
            [sys.executable, *argv], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 1
        assert "move the task to a module of its own" in done.stderr


def test_size_is_checked() -> None:
    with pytest.raises(ConfigurationError, match="at least 1"):
        Processes(0)
