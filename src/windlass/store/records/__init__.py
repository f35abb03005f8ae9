"""The values that go into and come out of a store. Times are seconds since the epoch, UTC.

One module for each thing they tell of; all of their names are here.
"""

from __future__ import annotations

from windlass.store.records.claim import (
    Claim,
    ClaimedJob,
    Fence,
    Finished,
    Outcome,
)
from windlass.store.records.job import (
    DEFAULT_OPTIONS,
    CancelAnswer,
    Checkpoint,
    DeleteAnswer,
    EnqueueStatus,
    Failure,
    JobFilter,
    JobRecord,
    Matches,
    NewJob,
    OnConflict,
    Options,
    Otherwise,
    Page,
    Receipt,
    RetryAnswer,
)
from windlass.store.records.parent import (
    ParentRecord,
    PartOf,
    PartPlan,
    PartRecord,
    Plan,
)
from windlass.store.records.queue import (
    QUEUE_SETTINGS,
    TASK_SETTINGS,
    Depth,
    QueueRecord,
    Steering,
    TaskRecord,
)
from windlass.store.records.upkeep import (
    Expired,
    Finding,
    Migration,
    Promoted,
    Rotation,
)
from windlass.store.records.worker import (
    Beat,
    Rescued,
    WorkerInfo,
    WorkerRecord,
)

__all__ = [
    "DEFAULT_OPTIONS",
    "QUEUE_SETTINGS",
    "TASK_SETTINGS",
    "Beat",
    "CancelAnswer",
    "Checkpoint",
    "Claim",
    "ClaimedJob",
    "DeleteAnswer",
    "Depth",
    "EnqueueStatus",
    "Expired",
    "Failure",
    "Fence",
    "Finding",
    "Finished",
    "JobFilter",
    "JobRecord",
    "Matches",
    "Migration",
    "NewJob",
    "OnConflict",
    "Options",
    "Otherwise",
    "Outcome",
    "Page",
    "ParentRecord",
    "PartOf",
    "PartPlan",
    "PartRecord",
    "Plan",
    "Promoted",
    "QueueRecord",
    "Receipt",
    "Rescued",
    "RetryAnswer",
    "Rotation",
    "Steering",
    "TaskRecord",
    "WorkerInfo",
    "WorkerRecord",
]
