"""Records of a store are in the API: each field of a record is in its view, by its name, or stands here with
the reason why it is shown otherwise. A new field fails here until somebody has decided."""

import msgspec
import pytest

from windlass.handles import details
from windlass.operations.budgets import BudgetView, KeyUsage
from windlass.operations.events import EventView
from windlass.operations.job_views import (
    CheckpointShape,
    FailureShape,
    JobProgressShape,
    JobView,
    ListedJob,
    PartOfShape,
)
from windlass.operations.jobs import CauseShape, CausesShape
from windlass.operations.new_jobs import ReceiptShape
from windlass.operations.parents import ParentShape, PartView
from windlass.operations.queues import GateView, QueueView, WatermarkView
from windlass.operations.schedules import ScheduleView
from windlass.operations.signals import WaitShape
from windlass.operations.store_health import SegmentView, StoreHealth
from windlass.operations.workers import BusyView, VitalsView, WorkerView
from windlass.presentation.steps import StepShape
from windlass.store import records

VIEWS: list[tuple[type[msgspec.Struct], type[msgspec.Struct], dict[str, str]]] = [
    (records.JobRecord, JobView, {"options": "each is a field"}),
    (records.JobRecord, ListedJob, {"options": "each is a field"}),
    (
        records.Options,
        JobView,
        {
            "costs": "the tokens that its runs take are told by its budgets",
            "results": "its arguments show them",
            "task_limit": "the setting of its task",
            "group_end": "group",
            "expires_at": "expires",
            "unknown_since": "reason",
        },
    ),
    (records.Failure, FailureShape, {}),
    (records.Checkpoint, CheckpointShape, {"done": "progress", "total": "progress"}),
    (records.Progress, JobProgressShape, {}),
    (records.PartOf, PartOfShape, {}),
    (records.Step, StepShape, {"left": "wakes_at"}),
    (records.Receipt, ReceiptShape, {}),
    (records.EventRecord, EventView, {}),
    (
        records.WorkerRecord,
        WorkerView,
        {"name": "label", "process": "no one needs it", "vitals_at": "vitals.at"},
    ),
    (records.Vitals, VitalsView, {"newest": "for the state in words"}),
    (records.Busy, BusyView, {}),
    (records.QueueRecord, QueueView, {}),
    (records.Depth, QueueView, {"free": "runnable"}),
    (records.Watermark, WatermarkView, {}),
    (records.GateRecord, GateView, {}),
    (records.BudgetRecord, BudgetView, {}),
    (records.Usage, KeyUsage, {}),
    (
        records.ScheduleRecord,
        ScheduleView,
        {"options": "the jobs show them", "live": "origin", "declared": "differences"},
    ),
    (records.ParentRecord, ParentShape, {}),
    (records.PartRecord, PartView, {}),
    (records.WaitRecord, WaitShape, {"name": "steps", "number": "cursor"}),
    (records.Cause, CauseShape, {}),
    (records.Causes, CausesShape, {}),
    (records.Health, StoreHealth, {"cache_misses": "cache_hits"}),
    (records.Segment, SegmentView, {}),
    (records.JobRecord, details.JobDetails, {}),
    (records.Failure, details.FailureDetails, {}),
    (records.PartOf, details.PartOfDetails, {}),
    (records.Step, details.StepDetails, {"sleep": "wakes_at", "left": "wakes_at"}),
    (records.ParentRecord, details.ParentDetails, {}),
    (records.PartRecord, details.PartDetails, {}),
    (records.ScheduleRecord, details.ScheduleDetails, {"live": "origin", "declared": "differences"}),
]
"""Record, view, and the fields that the view has not, with the place where they are or the reason."""
IDS = [f"{record.__name__}-{view.__name__}" for record, view, _ in VIEWS]


@pytest.mark.parametrize(("record", "view", "elsewhere"), VIEWS, ids=IDS)
def test_m1_every_field_of_a_record_is_in_its_view(
    record: type[msgspec.Struct], view: type[msgspec.Struct], elsewhere: dict[str, str]
) -> None:
    shown = {name for name in dir(view) if not name.startswith("_")}
    fields = set(record.__struct_fields__)
    assert fields - shown == elsewhere.keys() & fields
