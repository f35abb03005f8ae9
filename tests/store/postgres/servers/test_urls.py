"""URLs as libpq takes them: what they say is done, or refused by name."""

import os
import random
import re
import socket
import stat
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.postgres import HOST, Server, free_port
from tests.store.postgres.servers.conftest import Pair
from windlass.errors import ConfigurationError, StoreUnavailable
from windlass.store.factory import describe, kind_of, make_store
from windlass.store.postgres import PostgresStore
from windlass.store.postgres.connections.connect import password_of
from windlass.store.postgres.connections.url import read


def hosts(url: str, **environ: str) -> list[tuple[str | None, int]]:
    return [(host.at, host.port) for host in read(url, environ).hosts]


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("postgresql://h1:1,h2:2/db", [("h1", 1), ("h2", 2)]),
        ("postgresql://h1,h2:2/db", [("h1", 5432), ("h2", 2)]),
        ("postgresql://u:p@[::1]:1,h2/db", [("::1", 1), ("h2", 5432)]),
        ("postgresql://%2Frun%2Fpg/db", [("/run/pg", 5432)]),
        ("postgresql:///db?host=/run/pg&port=1", [("/run/pg", 1)]),
        ("postgresql:///db?host=h1,h2&port=1", [("h1", 1), ("h2", 1)]),
        ("postgresql:///db?host=h1,h2&port=1,2", [("h1", 1), ("h2", 2)]),
        ("postgresql://name/db?hostaddr=10.0.0.1", [("10.0.0.1", 5432)]),
        ("postgresql://", [(None, 5432)]),
    ],
)
def test_hosts(url: str, expected: list[tuple[str | None, int]]) -> None:
    """A list of hosts was refused as a bad port."""
    assert hosts(url) == expected


def test_the_environment_fills_what_the_url_leaves_open() -> None:
    environ = {
        "PGHOST": "h1,h2",
        "PGPORT": "1,2",
        "PGUSER": "ada",
        "PGAPPNAME": "shop",
        "PGOPTIONS": "-c a=b",
    }
    address = read("postgresql://", environ)
    assert [str(host) for host in address.hosts] == ["h1:1", "h2:2"]
    assert (address.user, address.settings) == ("ada", {"application_name": "shop", "options": "-c a=b"})
    other = read("postgresql://bob@h3/db?application_name=mine", {**environ, "PGPORT": "7"})
    assert ([str(host) for host in other.hosts], other.user) == (["h3:7"], "bob")
    assert other.settings["application_name"] == "mine"


def test_a_service_file_is_read(tmp_path: Path) -> None:
    file = tmp_path / "services"
    file.write_text("[shop]\nhost=h1,h2\nport=6432\nuser=ada\npassword=50%+\ntarget_session_attrs=primary\n")
    for url in ("postgresql:///db?service=shop", "postgresql:///db"):
        address = read(url, {"PGSERVICEFILE": str(file), "PGSERVICE": "shop", "PGUSER": "eve"})
        assert [str(host) for host in address.hosts] == ["h1:6432", "h2:6432"]
        assert (address.user, address.password, address.wanted) == ("ada", "50%+", "primary")
    with pytest.raises(ConfigurationError, match=r"no service 'other' in .*services"):
        read("postgresql:///?service=other", {"PGSERVICEFILE": str(file)})


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("channel_binding=require", "channel_binding.* is not supported.*channel_binding=prefer"),
        ("gssencmode=require", "gssencmode.* is not supported"),
        ("require_auth=scram-sha-256", "require_auth .*leave it out"),
        ("sslcrldir=/etc/crl", "sslcrl names"),
        ("client_encoding=LATIN1", "client_encoding .*speaks UTF-8"),
        ("statement_timeout=5", r"'statement_timeout' .*options=-c%20statement_timeout%3D"),
        ("sslmode=no", "sslmode .*must be one of disable, allow"),
        ("target_session_attrs=master", "target_session_attrs .*read-write"),
        ("connect_timeout=soon", "connect_timeout .*whole number"),
        ("sslmode=require&sslrootcert=/no/such.pem", "sslrootcert names /no/such.pem"),
        ("host=a,b&port=1,2,3", "2 hosts, 2 addresses and 3 ports"),
        ("host=a&hostaddr=10.0.0.1&sslmode=verify-full", "hostaddr .*does not work with"),
        ("sslrootcert=system&sslmode=require", "needs sslmode=verify-full"),
    ],
)
def test_what_is_not_supported_is_refused_by_name(query: str, text: str) -> None:
    """Unknown ones went to the server as settings, and of known ones some were not heeded."""
    with pytest.raises(ConfigurationError, match=text) as refused:
        make_store(f"postgresql://bob:s3cret@/db?{query}")
    assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize("query", ["channel_binding=prefer", "gssencmode=disable", "client_encoding=UTF8"])
def test_what_asks_for_no_more_is_taken(query: str) -> None:
    assert make_store(f"postgresql://h/db?{query}&sslcompression=0") is not None


def test_m6_a_url_is_shown_without_secrets() -> None:
    assert describe("postgresql://u:s@h1:1,h2/db?password=s&sslpassword=s") == "postgresql://h1:1,h2/db"
    assert describe("postgresql:///db?host=/run/pg&user=u&password=s") == "postgresql:///db?host=/run/pg"
    assert describe("postgresql:///?service=shop") == "postgresql:///?service=shop"
    with pytest.raises(ConfigurationError) as refused:
        kind_of("host=h password=s3cret")
    assert "s3cret" not in str(refused.value)


def test_a_password_file_is_read_as_libpq_does(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """asyncpg leaves the backslash before a colon in the password, and fails at a line that is none."""
    file = tmp_path / "pass"
    file.write_text(
        "# a comment\nno line\nh1:1:db:bob:first\nh1:*:d\\:b:bob:se\\:co\\\\nd\n*:*:*:bob:any\n", "utf-8"
    )
    file.chmod(0o600)
    assert password_of(str(file), "h1", 1, "db", "bob") == "first"
    assert password_of(str(file), "h1", 9, "d:b", "bob") == "se:co\\nd"
    assert password_of(str(file), "h2", 1, "db", "bob") == "any"
    assert password_of(str(file), "h2", 1, "db", "eve") is None
    assert password_of(str(tmp_path / "none"), "h2", 1, "db", "eve") is None
    file.chmod(0o644)
    assert password_of(str(file), "h1", 1, "db", "bob") is None
    assert "chmod 0600" in caplog.text


async def session(url: str) -> dict[str, Any]:
    """What a session of the store's is."""
    store = PostgresStore(url, deadline=5.0)
    await store.open()
    try:
        async with store._db.connection() as connection:
            row = await connection.fetchrow(
                "SELECT inet_server_port() AS port, current_setting('application_name') AS name, "
                "current_setting('work_mem') AS memory, current_setting('statement_timeout') AS longest, "
                "pg_is_in_recovery() AS standby"
            )
            found = connection._transport.get_extra_info("socket")
            with socket.socket(found.family, found.type, fileno=os.dup(found.fileno())) as own:
                tcp = found.family == socket.AF_INET
                alive = own.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) if tcp else None
                idle = own.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) if tcp else None
        return {**dict(row), "keepalives": alive, "idle": idle}
    finally:
        await store.close()


async def test_what_a_url_sets_is_set(pg_dsn: str) -> None:
    query = (
        "application_name=shop&options=-c%20work_mem%3D5MB%20-c%20statement_timeout%3D9s&keepalives_idle=77"
    )
    found = await session(f"{pg_dsn}?{query}")
    assert (found["name"], found["memory"], found["longest"]) == ("shop", "5MB", "9s")
    assert (found["keepalives"], found["idle"]) == (1, 77)
    found = await session(f"{pg_dsn}?keepalives=0&fallback_application_name=less&gssencmode=prefer")
    assert (found["name"], found["longest"], found["keepalives"]) == ("less", "0", 0)
    # The same URL does for psycopg.
    with psycopg.connect(f"{pg_dsn}?{query}") as connection:
        assert connection.execute("SHOW work_mem").fetchone() == ("5MB",)


@pytest.mark.parametrize("setting", ["nosuch%3D1", "work_mem%3Dmuch", "port%3D1"])
async def test_a_setting_that_the_server_refuses_is_said(pg_dsn: str, setting: str) -> None:
    """It was a traceback of the driver's."""
    with pytest.raises(ConfigurationError, match=r"refuses what the URL's `options` set: .*parameter"):
        await PostgresStore(f"{pg_dsn}?options=-c%20{setting}").open()


async def test_a_password_file_and_a_service_lead_to_the_server(
    pg_server: Server, pg_dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = pg_dsn.rpartition("/")[2]
    passwords, services = tmp_path / "pass", tmp_path / "services"
    passwords.write_text(f"{HOST}:{pg_server.port}:*:postgres:{pg_server.password}\n")
    passwords.chmod(stat.S_IRUSR | stat.S_IWUSR)
    services.write_text(
        f"[jobs]\nhost={HOST}\nport={pg_server.port}\ndbname={name}\nuser=postgres\npassfile={passwords}\n"
    )
    monkeypatch.setenv("PGSERVICEFILE", str(services))
    assert (await session("postgresql://?service=jobs"))["port"] == pg_server.port
    with psycopg.connect("postgresql://?service=jobs") as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)


async def test_a_wrong_password_is_said(pg_dsn: str) -> None:
    wrong = re.sub(r":[^:@]+@", ":s3cret@", pg_dsn)
    with pytest.raises(ConfigurationError, match="password authentication failed") as refused:
        await PostgresStore(wrong).open()
    assert "s3cret" not in str(refused.value)


async def test_a_socket(pair: Pair) -> None:
    """By the folder in `host`, and percent-encoded in the place of a host."""
    server, login, folder = pair.primary, f"postgres:{pair.primary.password}", str(pair.primary.data_dir)
    for url in (
        f"postgresql://{login}@/{pair.database}?host={folder}&port={server.port}&sslmode=require",
        f"postgresql://{login}@{folder.replace('/', '%2F')}:{server.port}/{pair.database}",
    ):
        assert (await session(url))["port"] is None


async def test_the_first_host_that_answers_is_taken(pair: Pair) -> None:
    """One dead port before a live one."""
    dead = free_port()
    found = await session(pair.hosts(dead, pair.primary.port))
    assert found["port"] == pair.primary.port
    with pytest.raises(StoreUnavailable, match=f"no server of the URL.*:{dead}: .*; .*:1: "):
        await PostgresStore(pair.hosts(dead, 1)).open()


async def test_a_host_that_does_not_answer_is_passed(pair: Pair) -> None:
    """asyncpg spends the whole time on the first host; `connect_timeout` is for each."""
    with socket.socket() as silent:
        silent.bind((HOST, 0))
        silent.listen()  # takes connections, and never says a word
        url = f"{pair.hosts(silent.getsockname()[1], pair.primary.port)}?connect_timeout=1"
        assert (await session(url))["port"] == pair.primary.port


@pytest.mark.parametrize(
    ("wanted", "standby"),
    [
        ("any", True),
        ("read-write", False),
        ("primary", False),
        ("standby", True),
        ("read-only", True),
        ("prefer-standby", True),
    ],
)
async def test_the_host_that_the_url_wants_is_taken(wanted: str, standby: bool, pair: Pair) -> None:
    """A standby before its primary, and for those that want one, after it."""
    ports = [pair.standby.port, pair.primary.port]
    for order in (ports, ports[::-1]) if wanted != "any" else (ports,):
        found = await session(f"{pair.hosts(*order)}?target_session_attrs={wanted}")
        assert found["standby"] is standby


async def test_none_of_the_wanted_kind_is_said(pair: Pair) -> None:
    url = f"{pair.hosts(pair.standby.port, 1)}?target_session_attrs=primary"
    with pytest.raises(StoreUnavailable, match=r"wants a server that is a primary.*; .*:1: "):
        await PostgresStore(url).open()
    found = await session(f"{pair.hosts(1, pair.primary.port)}?target_session_attrs=prefer-standby")
    assert found["standby"] is False


async def test_hosts_are_shuffled_where_the_url_says_so(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(random, "sample", lambda hosts, n: hosts[::-1])
    url = f"{pair.hosts(pair.standby.port, pair.primary.port)}?load_balance_hosts=random"
    assert (await session(url))["standby"] is False
