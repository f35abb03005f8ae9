"""A real PgBouncer before a test's server, where this machine has one.

It may not run as root, so like the server it runs as another account. A test that does not find it is left
out, and the run says so loudly.
"""

import contextlib
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests import left_out
from tests.postgres import HOST, USER, Server, free_port
from tests.postgres_install import account
from tests.stopwatch import Stopwatch

SETTINGS = """
[databases]
* = host={host} port={upstream} user={user} password={password}

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = {mode}
default_pool_size = {size}
max_client_conn = 200
server_login_retry = 1
logfile = {folder}/pgbouncer.log
pidfile = {folder}/pgbouncer.pid
"""


def program() -> str:
    """Where PgBouncer is; skips the test where it is not."""
    found = left_out.pgbouncer()
    if found is None:
        pytest.skip(left_out.POOLER.reason)
    return found


@contextmanager
def pooler(
    server: Server, dsn: str, folder: Path, size: int, mode: str = "transaction", more: str = ""
) -> Iterator[str]:
    """The URL that leads to the database of `dsn` through a pooler. In transaction mode so few connections
    that every client gets another one each time; `more` are lines for its settings."""
    pgbouncer = program()
    port = free_port()
    place = Path(server.home) / f"pgbouncer-{port}"  # the test's own folder is closed to other accounts
    place.mkdir()
    ini = place / "pgbouncer.ini"
    ini.touch(0o600)
    ini.write_text(
        SETTINGS.format(
            host=HOST, upstream=server.port, user=USER, password=server.password,
            port=port, size=size, folder=place, mode=mode,
        ) + more,
        encoding="utf-8",
    )  # fmt: skip
    user = account()
    if user is not None:
        for path in (place, ini):
            os.chown(path, user.uid, user.gid)
    process = subprocess.Popen(
        [pgbouncer, "-q", str(ini)],
        stdin=subprocess.DEVNULL,
        user=user.uid if user else None,
        group=user.gid if user else None,
        extra_groups=[] if user else None,
    )
    try:
        _wait(process, port, place)
        yield dsn.replace(f":{server.port}/", f":{port}/")
    finally:
        process.kill()
        process.wait(10)
        shutil.copy(place / "pgbouncer.log", folder / "pgbouncer.log")
        shutil.rmtree(place, ignore_errors=True)


def _wait(process: subprocess.Popen[bytes], port: int, place: Path) -> None:
    watch = Stopwatch()
    while watch.seconds() < 10:
        with contextlib.suppress(OSError), socket.create_connection((HOST, port), timeout=1):
            return
        assert process.poll() is None, (place / "pgbouncer.log").read_text(errors="replace")
        time.sleep(0.02)
    raise AssertionError("PgBouncer does not listen after 10 s")
