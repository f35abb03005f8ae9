"""[K13] A process that has ended can be told from one that runs, and from one of another machine."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from windlass.worker.engine.process_key import is_gone, process_key

SAY = "from windlass.worker.engine.process_key import process_key as key; print(key(), flush=True); input()"


def test_this_process_runs() -> None:
    assert process_key().split("/")[-2] == str(os.getpid())
    assert not is_gone(process_key())


def test_one_that_was_killed_is_gone_also_while_nobody_has_waited_for_it() -> None:
    with subprocess.Popen([sys.executable, "-c", SAY], stdin=-1, stdout=-1, text=True) as other:
        assert other.stdout is not None
        key = other.stdout.readline().strip()
        assert not is_gone(key)
        other.kill()
        os.waitid(os.P_PID, other.pid, os.WEXITED | os.WNOWAIT)
        assert is_gone(key)
        other.wait()
    assert is_gone(key)


def test_a_number_that_was_used_again_is_another_process() -> None:
    place, _, began = process_key().rpartition("/")
    assert is_gone(f"{place}/{int(began) - 1}")


def test_one_that_is_hidden_may_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a process of another user is where a unit has ProtectProc=invisible."""
    key = process_key()
    (tmp_path / "sys/kernel/random").mkdir(parents=True)
    boot = tmp_path / "sys/kernel/random/boot_id"
    boot.write_text(Path("/proc/sys/kernel/random/boot_id").read_text("ascii"), "ascii")
    (tmp_path / "self/ns").mkdir(parents=True)
    (tmp_path / "self/ns/pid").symlink_to(Path("/proc/self/ns/pid").readlink())
    monkeypatch.setattr("windlass.worker.engine.process_key._PROC", tmp_path)
    assert process_key() == ""
    assert not is_gone(key)


def test_of_another_machine_or_container_nothing_is_known() -> None:
    boot, namespace, _, began = process_key().split("/")
    free = 2**22 + 1  # beyond what a kernel gives out
    assert is_gone(f"{boot}/{namespace}/{free}/{began}")
    assert not is_gone(f"{boot}/pid:[1]/{free}/{began}")
    assert not is_gone(f"other/{namespace}/{free}/{began}")
    assert not is_gone("")
