"""The oracle: a small model of a store in memory, which the real ones are compared with.

`tables` holds what there is and the moves a job can make, `gates` and `tokens` where it waits aside; `store`
is the protocol on top; `base` wakes those who wait. Nothing here is durable, and nothing is clever.
"""

from tests.model.oracle.store import OracleStore

__all__ = ["OracleStore"]
