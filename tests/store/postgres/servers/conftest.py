"""A primary with a standby, and jobs in every state that one worker can bring about."""

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.postgres import Server
from tests.standby import Standby

MIGRATE = "from windlass.cli import main; main(['migrate'])"


@dataclass(frozen=True)
class Pair:
    """A primary with a migrated database, and its standby."""

    primary: Server
    standby: Standby
    database: str

    @property
    def here(self) -> str:
        """The URL of the primary."""
        return self.primary.dsn(self.database)

    @property
    def there(self) -> str:
        """The URL of the standby."""
        return self.standby.dsn(self.database)

    def hosts(self, *ports: int) -> str:
        """The URL with these ports of this machine in turn."""
        login, _, rest = self.here.partition("@")
        return f"{login}@{','.join(f'127.0.0.1:{port}' for port in ports)}/{rest.partition('/')[2]}"


def migrated(server: Server) -> str:
    """The name of a new database with our schema."""
    name = server.create_database()
    subprocess.run([sys.executable, "-c", MIGRATE], env=environ(server.dsn(name)), check=True)
    return name


def environ(url: str) -> dict[str, str]:
    """The environment of a command that works with this database."""
    return {**os.environ, "WINDLASS_DATABASE_URL": url}


@pytest.fixture(scope="session")
def pair() -> Iterator[Pair]:
    """Servers of their own: a standby holds up what others on its primary test. They have a socket, too."""
    with Server(18, fsync=False, settings={"unix_socket_directories": "."}) as primary:
        name = migrated(primary)
        with Standby(primary) as standby:
            yield Pair(primary, standby, name)
