"""An app on a migrated PostgreSQL database, and a text that is hard on placeholders and quoting.

The tests share one database, since copying one takes longer than a test; each has a queue of its own in it.
"""

import secrets
from collections.abc import Iterator

import pytest

from tests.postgres import Server
from windlass import Windlass
from windlass.tasks.task import SyncTask

HARD = """100% of "it's" $1 %s %(p1)s :p1 \\ \\u0000 {curly} [1,2] ü→𝄞 NULL"""


@pytest.fixture(scope="package")
def dsn(pg_server: Server, pg_template: str) -> Iterator[str]:
    name = pg_server.create_database(template=pg_template)
    yield pg_server.dsn(name)
    pg_server.drop_database(name)


@pytest.fixture
def app(dsn: str) -> Iterator[Windlass]:
    with Windlass(dsn) as app:
        yield app


@pytest.fixture
def queue() -> str:
    return f"notes-{secrets.token_hex(4)}"


@pytest.fixture
def note(app: Windlass, queue: str) -> SyncTask[[str], str]:
    @app.task(name="notes.add", queue=queue)
    def add(text: str) -> str:
        return text

    return add
