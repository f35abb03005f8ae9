"""The verb that serves Mission Control: web. What it serves lives in `windlass.web`."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
from typing import Any, Final

import click

from windlass.cli.options import log_options, on_store
from windlass.cli.target import Target
from windlass.errors import ConfigurationError
from windlass.running.loopthread import prefer_uvloop

_NOT_OURS: Final = frozenset({errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT})


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8470,
    show_default=True,
    help="The port to listen on; 0 for any free one.",
)
@click.option(
    "--allow-host",
    "hosts",
    multiple=True,
    metavar="NAME",
    help="Serve requests for this host name, such as ops.example.com; may be repeated. [WINDLASS_WEB_HOSTS]",
)
@log_options
@on_store
def web(target: Target, host: str, port: int, hosts: tuple[str, ...]) -> None:
    """Serve Mission Control: pages, the JSON API, /metrics and server-sent events.

    Without credentials only this machine is served. To listen elsewhere, set WINDLASS_WEB_OPERATE and
    WINDLASS_WEB_READ to name:secret pairs; whoever has one logs in with it, or sends the secret as a Bearer
    token. Put TLS in front of it.
    """
    try:
        from windlass.web.http.serving import make_server, serve
    except ImportError as error:
        raise ConfigurationError(
            f"{error.name} is missing, which the web needs: pip install 'windlass[web]'"
        ) from error
    app = target.app
    app.discover(*app.settings.imports)
    server = make_server(app, host, port, hosts)
    _check_free(host, port)
    if target.missing():
        click.echo(
            f"{target.place}: there is no such file yet; it is made now, without any job. If yours are "
            "elsewhere, point --database or WINDLASS_DATABASE_URL there",
            err=True,
        )

    def ready() -> None:
        listening = server.servers[0].sockets[0].getsockname()
        shown = f"[{host}]" if ":" in host else host
        click.echo(f"Mission Control of {target.place} on http://{shown}:{listening[1]}/ (Ctrl-C stops it)")

    with contextlib.suppress(KeyboardInterrupt), asyncio.Runner(loop_factory=prefer_uvloop()) as runner:
        runner.run(serve(server, app, ready))
    if not server.started:
        raise SystemExit(1)


def _check_free(host: str, port: int) -> None:
    """Refuse an address that cannot be listened on, in words: the server itself would log the bare error of
    the system and leave. It takes the address a moment later; should another be faster, it does just that."""
    refusals: list[OSError] = []
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        found, refusals = [], [error]
    for family, kind, protocol, _, address in found:
        try:
            _listen(family, kind, protocol, address)
        except OSError as error:
            refusals.append(error)
    for refusal in refusals:
        # A name may stand for addresses of which this machine has only some.
        if len(refusals) < len(found) and refusal.errno in _NOT_OURS:
            continue
        why = "another program listens there" if refusal.errno == errno.EADDRINUSE else refusal.strerror
        raise click.ClickException(
            f"cannot listen on {host}, port {port}: {why}; choose another --port (0: any free one) or --host"
        ) from refusal


def _listen(family: int, kind: int, protocol: int, address: Any) -> None:
    with socket.socket(family, kind, protocol) as tried:
        if os.name == "posix":  # as the server does: one that has just left does not keep it
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            tried.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        tried.bind(address)
        tried.listen()
