"""Why an operation is refused. The API answers with a status, a command with one line and exit code 1."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar, Final

from windlass.errors import InvalidOption, WindlassError
from windlass.presentation.text import one_line

MAX_VALUE: Final = 1_000_000_000.0
"""The largest time or rate of a setting: seconds beyond it are longer than any useful duration."""


class Refusal(WindlassError):
    """An operation was refused, and nothing was changed."""

    status: ClassVar[int] = 400
    code: ClassVar[str] = "invalid"

    def __init__(self, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field
        """The parameter that is wrong, if one is."""
        self.retry_after: float | None = None
        """Seconds after which to try again, where that helps."""


class Invalid(Refusal, ValueError):
    """A parameter makes no sense."""


class NotFound(Refusal):
    """Nothing has this name or id."""

    status: ClassVar[int] = 404
    code: ClassVar[str] = "not_found"


class Conflict(Refusal):
    """The request conflicts with the current state."""

    status: ClassVar[int] = 409
    code: ClassVar[str] = "conflict"


class Busy(Refusal):
    """Too much of this is under way."""

    status: ClassVar[int] = 429
    code: ClassVar[str] = "busy"

    def __init__(self, message: str, retry_after: float) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Overloaded(Busy):
    """More is asked for than the store takes."""

    status: ClassVar[int] = 503


@contextmanager
def refusing() -> Iterator[None]:
    """Turn what a store says about a value into a refusal."""
    try:
        yield
    except InvalidOption as error:
        raise Invalid(one_line(str(error))) from error
    except WindlassError:
        raise
    except ValueError as error:
        raise Invalid(one_line(str(error))) from error


def check_bounds(changes: Mapping[str, Any]) -> None:
    """Refuse times and rates that are too large for any setting. The store checks the rest."""
    for name, value in changes.items():
        if isinstance(value, float) and not abs(value) <= MAX_VALUE:  # nor is NaN
            raise Invalid(f"{name}: must be at most {MAX_VALUE:,.0f}", name)
