"""The values that go into and come out of a store. Times are seconds since the epoch, UTC.

One module for each subject; this package exports all of their names.
"""

from __future__ import annotations

from windlass.store.fields import NewBudget, TaskRecord
from windlass.store.records.budget import BudgetRecord, Governed, Need, Needs, Runs, Taken
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
from windlass.store.records.limit import GateRecord, Watermark
from windlass.store.records.measure import (
    Busy,
    Cause,
    Causes,
    Event,
    EventKind,
    EventRecord,
    Health,
    Report,
    Rolled,
    Segment,
    Table,
    TaskDepth,
    Vitals,
)
from windlass.store.records.parent import (
    ParentRecord,
    PartOf,
    PartPlan,
    PartRecord,
    Plan,
)
from windlass.store.records.queue import (
    ClusterView,
    Depth,
    QueueRecord,
)
from windlass.store.records.schedule import Due, NewSchedule, ScheduleRecord
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
    "Beat",
    "BudgetRecord",
    "Busy",
    "CancelAnswer",
    "Cause",
    "Causes",
    "Checkpoint",
    "Claim",
    "ClaimedJob",
    "ClusterView",
    "DeleteAnswer",
    "Depth",
    "Due",
    "EnqueueStatus",
    "Event",
    "EventKind",
    "EventRecord",
    "Expired",
    "Failure",
    "Fence",
    "Finding",
    "Finished",
    "GateRecord",
    "Governed",
    "Health",
    "JobFilter",
    "JobRecord",
    "Matches",
    "Migration",
    "Need",
    "Needs",
    "NewBudget",
    "NewJob",
    "NewSchedule",
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
    "Report",
    "Rescued",
    "RetryAnswer",
    "Rolled",
    "Rotation",
    "Runs",
    "ScheduleRecord",
    "Segment",
    "Table",
    "Taken",
    "TaskDepth",
    "TaskRecord",
    "Vitals",
    "Watermark",
    "WorkerInfo",
    "WorkerRecord",
]
