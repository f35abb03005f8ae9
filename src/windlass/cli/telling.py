"""What is done by the command shows in the timeline, as what is done in the browser does [M2]: who did it,
and telling the store. No verb fails for that: what cannot be told is logged and nothing else."""

from __future__ import annotations

import getpass
import logging
from collections.abc import Iterable

from windlass.store.protocol import Store
from windlass.words import telling
from windlass.words.deeds import Deed

logger = logging.getLogger("windlass.cli")


def operator() -> str:
    """Who runs the command: the name of the account."""
    try:
        return f"{getpass.getuser()}@cli"
    except (OSError, KeyError, ImportError):  # an account without a name, as in some containers
        return "cli"


async def tell(store: Store, deeds: Iterable[Deed]) -> None:
    """Tell the timeline what was done."""
    if trouble := await telling.tell(store, deeds, operator()):
        logger.debug("what was done is not in the timeline: %s", trouble)
