"""What a function returned, as it is kept with its job [O8]; the same in a worker and in a pool's child."""

from __future__ import annotations

from typing import Any

from windlass.encoding import encode
from windlass.errors import EnqueueError
from windlass.signals import Dead


def keep(value: Any) -> str | None:
    """The value as JSON text, None for None. Raises Dead for one that cannot be kept."""
    if value is None:
        return None
    try:
        return encode(value)
    except EnqueueError as error:
        # It ran to its end: trying again would only repeat what it did.
        raise Dead(f"its return value cannot be kept: it {error}") from error
