"""windlass web: what keeps it from serving is said in one line, before it begins [M6]."""

import os
import signal
import socket
import subprocess
import sys

import pytest

from tests.cli.kit import Desk

pytest.importorskip("starlette")


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_port_in_use_is_said_in_one_line(desk: Desk, host: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        said = desk.refused("web", "--host", host, "--port", str(port))
    assert said.splitlines() == [
        f"Error: cannot listen on {host}, port {port}: another program listens there; choose another --port "
        "(0: any free one) or --host"
    ]


def test_a_host_that_is_none_is_said_in_one_line(desk: Desk) -> None:
    environ = {"WINDLASS_WEB_OPERATE": "ada:a-long-secret-of-ada-0123456789"}
    result = desk.run("web", "--host", "192.0.2.1", **environ)
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: cannot listen on 192.0.2.1, port 8470: ")


def test_a_new_file_is_warned_of(path: str) -> None:
    """It serves all the same: a first job may come through it."""
    command = [sys.executable, "-m", "windlass", "web", "--port", "0", "--database", path]
    environ = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environ
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("Mission Control of ")
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=10)
    assert process.returncode == 0
    assert "there is no such file yet; it is made now, without any job" in said
