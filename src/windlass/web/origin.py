"""Where a request comes from: which hosts this app answers for, and whether a page of its own sent it [M5].

A name that is not ours is refused: a browser that was told a stranger's name for this address would hand
the stranger our answers (DNS rebinding). An unsafe request that another site's page sent is refused: a
browser may add the user's credentials to it by itself.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final
from urllib.parse import urlsplit

LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_PASSED_ON: Final = frozenset(
    {
        "forwarded",
        "via",
        "x-real-ip",
        "x-client-ip",
        "x-cluster-client-ip",
        "true-client-ip",
        "cf-connecting-ip",
    }
)
_OWN: Final = frozenset({"same-origin", "none"})


class Hosts:
    """The names this app answers for: `*` for any, `.example.com` for whatever ends so."""

    def __init__(self, names: Iterable[str] = (), *, numbers: bool = False) -> None:
        given = {name.strip().lower().strip("[]") for name in names if name.strip()}
        self._any = "*" in given
        self._names = LOOPBACK | {name for name in given if not name.startswith(".")}
        self._ends = tuple(name for name in given if name.startswith("."))
        self._numbers = numbers
        """Whether every numeric address is ours: nobody can be told a stranger's name for one."""

    def allow(self, header: str | None) -> bool:
        """Whether a Host header names this app."""
        if self._any or header in self._names:
            return True
        name = host_name(header)
        if name is None:
            return False
        if name in self._names or (self._ends and name.endswith(self._ends)):
            return True
        return self._numbers and _is_number(name)


def host_name(header: str | None) -> str | None:
    """The name in a Host header, without its port; None where there is none."""
    if not header:
        return None
    try:
        return urlsplit(f"//{header}").hostname
    except ValueError:
        return None


@lru_cache(1_000)
def is_loopback(address: str | None) -> bool:
    """Whether an address is this machine's own."""
    try:
        parsed = ipaddress.ip_address(address or "")
    except ValueError:
        return address == "localhost"
    mapped = getattr(parsed, "ipv4_mapped", None)
    return bool((mapped or parsed).is_loopback)


def passed_on(headers: Iterable[str], http_version: str) -> bool:
    """Whether a proxy has had this in its hands, as far as can be seen: by a header that it adds, or by the
    version of HTTP, which some lower. One that does neither cannot be told from a program of this machine."""
    return http_version == "1.0" or any(
        name in _PASSED_ON or name.startswith("x-forwarded-") for name in headers
    )


def from_elsewhere(headers: Mapping[str, str]) -> bool:
    """Whether a page of another site sent this. A program sends neither header."""
    site = headers.get("sec-fetch-site")
    if site is not None and site.lower() not in _OWN:
        return True
    origin = headers.get("origin")
    if origin is None:
        return False
    # The scheme is left out: whoever ends TLS in front of us need not tell.
    return _place(origin.partition("://")[2]) != _place(headers.get("host", ""))


def _place(netloc: str) -> tuple[str | None, int | None]:
    try:
        parts = urlsplit(f"//{netloc}")
        port = parts.port
    except ValueError:
        return None, -1
    return parts.hostname, None if port in (80, 443) else port


def _is_number(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
