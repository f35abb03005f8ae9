"""The values that go into and come out of a store. Times are seconds since the epoch, UTC.

One module for each subject. What is imported here is for others to import from here.
"""

from __future__ import annotations

from windlass.store.fields import NewBudget, OnConflict, Otherwise, TaskRecord
from windlass.store.records.budget import BudgetRecord, Governed, Lease, Need, Needs, Runs, Taken, Usage
from windlass.store.records.claim import (
    FOR_HOSTS,
    Claim,
    ClaimedJob,
    Fence,
    Finished,
    Outcome,
    Parts,
    Polling,
    Room,
    WakeUp,
    parts_of,
)
from windlass.store.records.durable import (
    Awaited,
    Emits,
    Emitted,
    Once,
    StreamPage,
    Wait,
    WaitRecord,
)
from windlass.store.records.job import (
    CARRIED,
    DEFAULT_OPTIONS,
    JOB_OPTIONS,
    CancelAnswer,
    ChangeAnswer,
    Checkpoint,
    DeleteAnswer,
    EnqueueStatus,
    Failure,
    GroupResults,
    JobChange,
    JobFilter,
    JobRecord,
    KeptResult,
    Matches,
    NewJob,
    Options,
    Page,
    Progress,
    Receipt,
    RetryAnswer,
)
from windlass.store.records.limit import GateRecord, Watermark
from windlass.store.records.measure import (
    Busy,
    Cause,
    Causes,
    Counted,
    Event,
    EventKind,
    EventRecord,
    Health,
    Miscount,
    Report,
    Rolled,
    Segment,
    Table,
    TaskDepth,
    Vitals,
)
from windlass.store.records.parent import ParentRecord, PartOf, PartPlan, PartRecord, Plan, states_of_parts
from windlass.store.records.queue import ClusterView, Depth, QueueRecord
from windlass.store.records.schedule import Due, NewSchedule, ScheduleRecord
from windlass.store.records.step import SIGNAL, TIMEOUT, KnownSteps, Step
from windlass.store.records.upkeep import Expired, Finding, Migration, Promoted, Rotation
from windlass.store.records.worker import Heartbeat, Rescued, WorkerInfo, WorkerRecord
