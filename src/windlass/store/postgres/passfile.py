"""Passwords from a file, as libpq reads them: a line is host:port:database:user:password, `*` fits anything,
a backslash takes a colon or a backslash as it is."""

from __future__ import annotations

import functools
import logging
import os
import re
import stat
from pathlib import Path
from typing import Final

from windlass.errors import ConfigurationError

logger = logging.getLogger("windlass.store")
_FIELD: Final = re.compile(r"((?:\\.|[^:\\])*)(?::|$)")


def password_of(passfile: str | None, host: str, port: int, database: str, user: str) -> str | None:
    """The password for these; None where the file has none. Read anew at each connect: it may change."""
    path = Path(passfile or os.path.expanduser("~/.pgpass"))
    try:
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode):
            return None
        if os.name == "posix" and mode & (stat.S_IRWXG | stat.S_IRWXO):
            _ignored(path)
            return None
        lines = path.read_text("utf-8").splitlines()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(
            f"the password file {path} cannot be read: {type(error).__name__}"
        ) from error
    wanted = (host, str(port), database, user)
    for line in lines:
        fields = [re.sub(r"\\(.)", r"\1", each) for each in _FIELD.findall(line)]
        if line.startswith("#") or len(fields) < 5:
            continue
        if all(field in ("*", want) for field, want in zip(fields, wanted, strict=False)):
            return fields[4]
    return None


@functools.cache
def _ignored(path: Path) -> None:
    logger.warning("the password file %s is not used, since others may read it: chmod 0600 %s", path, path)
