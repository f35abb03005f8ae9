"""The options that the commands share, and how their values are checked. What makes no sense is a usage
error, exit code 2, and says what would."""

from __future__ import annotations

import click

from bench.servers import WHEEL
from tests.postgres_install import HOW, STOCK, find_stock

server_option = click.option(
    "--server",
    default=STOCK,
    show_default=True,
    metavar="stock|wheel|URL",
    help="Which PostgreSQL: that of this machine's packages, that of a wheel, or one that runs already.",
)


def check_server(server: str) -> None:
    """Raise click.BadParameter for a server that there is not."""
    if server == STOCK and find_stock() is None:
        raise click.BadParameter(f"no stock PostgreSQL found: {HOW}; or take --server wheel")
    if server not in (STOCK, WHEEL) and not server.startswith(("postgresql://", "postgres://")):
        raise click.BadParameter(f"--server is stock, wheel or a postgresql:// URL, not {server}")
