"""Where a request comes from: which hosts this app answers for, and whether a page of its own sent it [M5].

Unknown host names are refused: a site whose name points at this address could read our answers (DNS
rebinding). Unsafe requests from pages of other sites are refused: a browser may add the user's credentials to
them (CSRF).
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
    """The names this app answers for: `*` for any, `.example.com` for all that end so. A name with a scheme,
    as in `https://ops.example.com`, is reached by that scheme: TLS may end in front of us."""

    def __init__(self, names: Iterable[str] = (), *, numbers: bool = False) -> None:
        origins = [name.strip().lower().rpartition("://") for name in names if name.strip()]
        given = {name.strip("[]/") for _, _, name in origins}
        self._schemes = {name.strip("[]/"): scheme for scheme, _, name in origins if scheme}
        self._any = "*" in given
        self._names = LOOPBACK | {name for name in given if not name.startswith(".")}
        self._ends = tuple(name for name in given if name.startswith("."))
        self._numbers = numbers
        """True if any numeric address is accepted: DNS rebinding needs a name."""

    def allow(self, header: str | None) -> bool:
        """Return whether a Host header names this app."""
        if self._any or header in self._names:
            return True
        name = host_name(header)
        if name is None:
            return False
        if name in self._names or (self._ends and name.endswith(self._ends)):
            return True
        return self._numbers and _is_number(name)

    def scheme(self, header: str | None) -> str | None:
        """The scheme that was configured for a host, if any."""
        name = host_name(header) or ""
        for known, scheme in self._schemes.items():
            if name == known or (known.startswith(".") and name.endswith(known)) or known == "*":
                return scheme
        return None


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
    """Return whether an address is this machine's own."""
    try:
        parsed = ipaddress.ip_address(address or "")
    except ValueError:
        return address == "localhost"
    mapped = getattr(parsed, "ipv4_mapped", None)
    return bool((mapped or parsed).is_loopback)


@lru_cache(1_000)
def network_of(address: str) -> str:
    """Return the network that limits per address count by: an IPv4 address, or an IPv6 network of 64 bits,
    since one owner has all of its addresses."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv4Address):
        return str(parsed)
    return str(parsed.ipv4_mapped or ipaddress.ip_network((parsed.packed[:8] + bytes(8), 64)))


def passed_on(headers: Iterable[str], http_version: str) -> bool:
    """Return whether a proxy passed this on, as far as can be seen: by a header it adds, or by HTTP/1.0,
    which some use. A proxy that does neither looks like a local program."""
    return http_version == "1.0" or any(
        name in _PASSED_ON or name.startswith("x-forwarded-") for name in headers
    )


def from_elsewhere(headers: Mapping[str, str], scheme: str) -> bool:
    """Return whether a page of another site sent this. Programs send neither header. `scheme` is the one of
    this request, as far as we know."""
    site = headers.get("sec-fetch-site")
    if site is not None and site.lower() not in _OWN:
        return True
    origin = headers.get("origin")
    if origin is None:
        return False
    theirs, _, place = origin.lower().partition("://")
    if site is None and theirs != (_forwarded_scheme(headers) or scheme):
        return True  # sec-fetch-site compares schemes, too
    return _place(place) != _place(headers.get("host", ""))


def _forwarded_scheme(headers: Mapping[str, str]) -> str | None:
    """The scheme that a proxy says it was reached by. Any proxy is believed: a browser would not send this
    header for a page of another site without asking us first."""
    scheme = headers.get("x-forwarded-proto", "").partition(",")[0].strip().lower()
    return scheme if scheme in ("http", "https") else None


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
