"""The memory store: the small model that the other stores are compared with, and the double for users' tests.

`tables` holds what there is and the moves a job can make, `gates` and `tokens` where it waits aside; `store`
is the protocol on top; `bell` wakes those who wait. Nothing here is durable, and nothing is clever.
"""

from windlass.store.memory.store import MemoryStore

__all__ = ["MemoryStore"]
