"""Wait for a job, or enqueue one, as another user: `as_user PATH UID GID UMASK wait|enqueue QUEUE`.

Polls are half a minute apart. Everything is imported before root's rights are given up, since others may not
read its Python."""

import asyncio
import os
import sys

from tests.store.sqlite.kit import job
from windlass.store.sqlite import SQLiteStore
from windlass.store.sqlite.connections import wake


async def warm_up() -> None:
    """Import what is imported at first use."""
    store = SQLiteStore(":memory:")
    await store.open()
    await store.enqueue([job()])
    await store.close()
    await asyncio.to_thread(int)


async def act(path: str, action: str, queue: str) -> None:
    """Print what came of it."""
    store = SQLiteStore(path)
    await store.open()
    print("open", flush=True)  # noqa: T201 - this module is a command
    if action == "wait":
        print(await store.wait([queue], 20), flush=True)  # noqa: T201 - this module is a command
    else:
        await store.enqueue([job(queue=queue)])
    await store.close()


def become(user: int, group: int, umask: int) -> None:
    """Give up root's rights for good."""
    os.setgroups([])
    os.setgid(group)
    os.setuid(user)
    os.umask(umask)


if __name__ == "__main__":
    path, user, group, umask, action, queue = sys.argv[1:]
    vars(wake)["SHORTEST"] = 30.0
    asyncio.run(warm_up())
    become(int(user), int(group), int(umask, 8))
    asyncio.run(act(path, action, queue))
