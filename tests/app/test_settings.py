"""Flags over environment over pyproject.toml over code over defaults; and a URL is never shown."""

from pathlib import Path
from typing import Any

import pytest

from windlass import Windlass
from windlass.errors import ConfigurationError
from windlass.settings import Settings, load
from windlass.store.factory import describe, kind_of, make_store, sqlite_path
from windlass.store.sqlite import SQLiteStore

SHOP_URL = "postgresql://ada:s3cret@db.example.org:5432/shop?sslmode=require"
PROJECT = """
[tool.windlass]
schema = "from_file"
retention = "2d"
ageing_step = 0

[tool.windlass.routes]
"gh.*" = "gh"
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    (tmp_path / "below" / "deep").mkdir(parents=True)
    return tmp_path


def test_each_place_overrides_the_next(project: Path) -> None:
    code: dict[str, Any] = {"schema": "from_code", "retention": "1d", "size_limit": "1GiB", "ageing_step": 5}
    environ = {"WINDLASS_SCHEMA": "from_environment", "WINDLASS_SIZE_LIMIT": "2GiB"}
    found = load(
        code=code, environ=environ, directory=project / "below" / "deep", flags={"schema": "from_flag"}
    )
    assert found.schema == "from_flag"
    assert found.size_limit == 2 * 2**30
    assert found.retention == 2 * 86400
    assert found.ageing_step == 0
    assert found.routes == {"gh.*": "gh"}
    assert found.idempotency_retention == 86400
    assert load(code=code, environ=environ, directory=project).schema == "from_environment"
    assert load(code=code, environ={}, directory=project).schema == "from_file"
    assert load(code=code, environ={}, directory=Path("/")).schema == "from_code"


def test_the_database_comes_from_the_first_place_that_names_one() -> None:
    nowhere = Path("/")
    assert load(environ={}, directory=nowhere).database_url == "sqlite:///windlass.db"
    generic = {"DATABASE_URL": "postgresql://generic/db"}
    assert load(environ=generic, directory=nowhere).database_url == "postgresql://generic/db"
    code = {"database_url": "sqlite:///:memory:"}
    assert load(environ=generic, code=code, directory=nowhere).database_url == "sqlite:///:memory:"
    own = {**generic, "WINDLASS_DATABASE_URL": "sqlite:///own.db"}
    assert load(environ=own, code=code, directory=nowhere).database_url == "sqlite:///own.db"
    assert load(environ={"DATABASE_URL": ""}, directory=nowhere).database_url == "sqlite:///windlass.db"


@pytest.mark.parametrize(
    ("environ", "named"),
    [
        ({"WINDLASS_RETENTION": "a week"}, "WINDLASS_RETENTION"),
        ({"WINDLASS_SIZE_LIMIT": "much"}, "WINDLASS_SIZE_LIMIT"),
        ({"WINDLASS_SCHEMA": "Public; DROP"}, "WINDLASS_SCHEMA"),
        ({"WINDLASS_SCHEMA": "pg_temp"}, "WINDLASS_SCHEMA"),
        ({"WINDLASS_DATABASE_URL": "s3cret"}, "WINDLASS_DATABASE_URL"),
    ],
)
def test_a_bad_value_is_refused_with_its_source(environ: dict[str, str], named: str) -> None:
    with pytest.raises(ConfigurationError, match=named) as caught:
        load(environ=environ, directory=Path("/"))
    assert "s3cret" not in str(caught.value)


def test_an_unknown_setting_is_refused(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.windlass]\nretension = "2d"\n')
    with pytest.raises(ConfigurationError, match=r"tool\.windlass.*retension"):
        load(environ={}, directory=tmp_path)
    (tmp_path / "pyproject.toml").write_text("not [toml")
    with pytest.raises(ConfigurationError, match=r"cannot read pyproject\.toml"):
        load(environ={}, directory=tmp_path)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("databse_url", "; did you mean database_url?"),
        ("leese", "; did you mean lease?"),
        ("zzz", "; known: "),
    ],
)
def test_a_misspelt_setting_fails_at_once(name: str, said: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        Windlass(**{name: "1"})  # type: ignore[arg-type]
    assert str(refused.value).startswith(f"Windlass(…): there is no setting {name!r}{said}")


def test_m6_an_app_shows_where_its_jobs_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """[M6] Without a password, and without settling when its settings are read."""
    monkeypatch.delenv("WINDLASS_DATABASE_URL", raising=False)
    assert repr(Windlass(SHOP_URL)) == "<Windlass on postgresql://db.example.org:5432/shop>"
    assert repr(Windlass("mysql://ada:s3cret@x/y")) == "<Windlass with settings that cannot be read>"
    assert repr(Windlass(store=SQLiteStore(":memory:"))) == "<Windlass on SQLiteStore>"
    app = Windlass("sqlite:///:memory:")
    assert repr(app) == "<Windlass on sqlite:///:memory:>"
    monkeypatch.setenv("WINDLASS_DATABASE_URL", "sqlite:///own.db")
    assert repr(app) == "<Windlass on sqlite:///own.db>"
    with app.testing():
        assert repr(app) == "<Windlass in test mode>"


def test_m6_a_url_is_never_shown() -> None:
    settings = Settings(database_url=SHOP_URL)
    assert "s3cret" not in repr(settings) + str(settings)
    assert "s3cret" not in repr(Windlass(SHOP_URL).settings)
    assert describe(SHOP_URL) == "postgresql://db.example.org:5432/shop"
    assert describe("postgres://u:p@ss@h/db") == "postgresql://h/db"
    with pytest.raises(ConfigurationError) as caught:
        kind_of("mysql://root:s3cret@localhost/db")
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("postgresql://h/db", "postgresql"),
        ("postgres://h/db", "postgresql"),
        ("postgresql+psycopg://h/db", "postgresql"),
        ("sqlite:///a.db", "sqlite"),
        ("sqlite:///:memory:", "sqlite"),
    ],
)
def test_a_url_names_a_store(url: str, kind: str) -> None:
    assert kind_of(url) == kind
    assert make_store(url) is not None


def test_paths_of_sqlite_urls() -> None:
    assert sqlite_path("sqlite:///jobs.db") == "jobs.db"
    assert sqlite_path("sqlite:////var/lib/jobs.db") == "/var/lib/jobs.db"
    assert sqlite_path("sqlite:///with%20space.db") == "with space.db"
    assert sqlite_path("sqlite:///why%3F.db") == "why?.db"
    for make in (sqlite_path, make_store):
        with pytest.raises(ConfigurationError, match="leave out the"):
            make("sqlite:///jobs.db?timeout=5")
    for url in ("sqlite://", "sqlite:///"):
        with pytest.raises(ConfigurationError, match="sqlite:///:memory:"):
            sqlite_path(url)
    with pytest.raises(ConfigurationError, match="one slash too few"):
        sqlite_path("sqlite://jobs.db")


def test_a_missing_driver_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "asyncpg", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'windlass\[postgres\]'"):
        make_store("postgresql://h/db")


@pytest.mark.parametrize("secret", ["12/s3cr3t", "s3cr#3t", "s3cr?3t", "s3[cr3t", "s3@cr/3t"])
def test_a_password_that_breaks_the_url_is_refused_and_never_shown(secret: str) -> None:
    """[M6]"""
    for use in (describe, make_store):
        with pytest.raises(ConfigurationError, match="percent-encoded") as refused:
            use(f"postgresql://bob:{secret}@localhost:1/db")
        assert "3t" not in str(refused.value)
    with pytest.raises(ConfigurationError, match="port"):
        describe("postgresql://localhost:port/db")


def test_settings_in_code_reach_the_app(monkeypatch: pytest.MonkeyPatch) -> None:
    app = Windlass("sqlite:///:memory:", retention="3h", schema="jobs")
    assert (app.settings.retention, app.settings.schema) == (10800, "jobs")
    monkeypatch.setenv("WINDLASS_RETENTION", "4h")
    assert Windlass("sqlite:///:memory:", retention="3h").settings.for_store().retention == 14400
    with pytest.raises(ConfigurationError, match="retention"):
        Windlass("sqlite:///:memory:", retention="often").enqueue("a")
