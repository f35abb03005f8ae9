"""The PostgreSQL store: its modules, put together, and its own life. A module is a file here and, for the SQL
functions that do the work, a file of the same name in `sql/`."""

from __future__ import annotations

from typing import Final

from windlass.errors import StoreForbidden
from windlass.store.postgres import schema as schemas
from windlass.store.postgres.claims import Claims
from windlass.store.postgres.cluster import Cluster
from windlass.store.postgres.connections.database import DEADLINE, Database
from windlass.store.postgres.connections.errors import translated
from windlass.store.postgres.connections.listener import Listener
from windlass.store.postgres.counts import Counts
from windlass.store.postgres.deferred import Deferred
from windlass.store.postgres.diagnosis import Diagnosis
from windlass.store.postgres.durable.change import Changes
from windlass.store.postgres.durable.groups import Groups
from windlass.store.postgres.durable.signals import Signals
from windlass.store.postgres.durable.steps import Steps
from windlass.store.postgres.durable.streams import Streams
from windlass.store.postgres.durable.waits import Waits
from windlass.store.postgres.enqueue import Enqueue
from windlass.store.postgres.flow.budgets import Budgets
from windlass.store.postgres.flow.limits import Limits
from windlass.store.postgres.intake import Intake
from windlass.store.postgres.listing import Listing
from windlass.store.postgres.management import Management
from windlass.store.postgres.measures import Measures
from windlass.store.postgres.moving import Moving
from windlass.store.postgres.outcomes import Outcomes
from windlass.store.postgres.parents import Parents
from windlass.store.postgres.rehearsal import Rehearsal
from windlass.store.postgres.retention import Retention
from windlass.store.postgres.schedules import Schedules
from windlass.store.postgres.workers import Workers
from windlass.store.records import Migration
from windlass.store.settings import StoreSettings


class PostgresStore:
    """Jobs in PostgreSQL 15 to 18. One store belongs to the event loop that opened it.

    `deadline` is how many seconds a worker's call may take before it counts as unanswered; it should be no
    longer than the lease [fault 9].

    The operations of the protocol are methods of the modules, bound here: a call of the store is one of its
    module, with nothing between."""

    def __init__(  # noqa: PLR0915 - the table of contents
        self,
        dsn: str,
        schema: str = "windlass",
        settings: StoreSettings | None = None,
        *,
        pool_size: int = 10,
        head_cache: float = 1.0,
        dump_grace: float = 60.0,
        deadline: float = DEADLINE,
    ) -> None:
        self.settings: Final = settings or StoreSettings()
        self._db = Database(dsn, schema, pool_size, deadline)
        self._listener = Listener(self._db, self.settings.idle_poll)
        self._limits = Limits(self._db, self._listener)
        self._parents = Parents(self._db, self._limits)
        self._enqueue = Enqueue(self._db, self._limits)
        self._intake = Intake(self._enqueue.send, self._enqueue.send_own)
        self._groups = Groups(self._db, self._intake.enqueue)
        self._claims = Claims(self._db, self._listener, self._parents, self.settings, head_cache)
        self._outcomes = Outcomes(self._db, self._claims, self._limits, self._parents)
        self._steps = Steps(self._db)
        self._waits = Waits(self._db)
        self._signals = Signals(self._db, self._waits.waits)
        self._streams = Streams(self._db, self._listener, self.settings.stream_limit)
        self._workers = Workers(self._db, self._limits, self._outcomes)
        self._rehearsal = Rehearsal(self._db, self._claims)
        self._deferred = Deferred(self._db, self._limits, self._parents)
        self._budgets = Budgets(self._db)
        self._schedules = Schedules(self._db)
        self._management = Management(self._db, self._limits)
        self._changes = Changes(self._db, self._limits)
        self._cluster = Cluster(self._db)
        self._measures = Measures(self._db)
        self._counts = Counts(self._db)
        self._diagnosis = Diagnosis(self._db, self._listener, self._claims)
        self._listing = Listing(self._db, self._listener)
        self._moving = Moving(self._db)
        self._retention = Retention(self._db, dump_grace)

        self.enqueue: Final = self._intake.enqueue

        self.claim: Final = self._claims.claim
        self.unfinished: Final = self._claims.unfinished
        self.fences: Final = self._claims.fences
        self.wait: Final = self._claims.wait
        self.forward_wakeups: Final = self._listener.forward_wakeups
        self.on_wakeup: Final = self._listener.on_wakeup
        self.polling: Final = self._claims.polling

        self.finish: Final = self._outcomes.finish
        self.transaction: Final = self._outcomes.transaction
        self.checkpoint: Final = self._outcomes.checkpoint
        self.saving: Final = self._outcomes.saving
        self.checkpoints: Final = self._outcomes.checkpoints
        self.results: Final = self._listing.results

        self.save_step: Final = self._steps.save_step
        self.saving_step: Final = self._steps.saving_step
        self.steps: Final = self._steps.steps
        self.emit: Final = self._streams.emit
        self.wait_stream: Final = self._streams.wait_stream

        self.signal: Final = self._signals.signal
        self.wait_for_signal: Final = self._waits.wait_for_signal
        self.waits: Final = self._waits.waits

        self.enqueue_in_group: Final = self._groups.enqueue_in_group
        self.close_group: Final = self._groups.close_group
        self.group_jobs: Final = self._groups.group_jobs
        self.group_counts: Final = self._groups.group_counts

        self.register: Final = self._workers.register
        self.rehearse: Final = self._rehearsal.rehearse
        self.retire: Final = self._workers.retire
        self.heartbeat: Final = self._workers.heartbeat
        self.workers: Final = self._workers.workers
        self.published_queue: Final = self._workers.published_queue
        self.published_tasks: Final = self._workers.published_tasks
        self.rescue: Final = self._workers.rescue

        self.promote: Final = self._deferred.promote

        self.gates: Final = self._limits.gates
        self.watermarks: Final = self._limits.watermarks
        self.wait_aside: Final = self._limits.wait_aside

        self.budgets: Final = self._budgets.budgets
        self.declare_budget: Final = self._budgets.declare_budget
        self.set_budget: Final = self._budgets.set_budget
        self.drop_budget: Final = self._budgets.drop_budget
        self.take: Final = self._budgets.take
        self.lease: Final = self._budgets.lease
        self.give_back: Final = self._budgets.give_back
        self.usage: Final = self._budgets.usage
        self.settle: Final = self._budgets.settle
        self.spent: Final = self._budgets.spent
        self.drain: Final = self._budgets.drain
        self.report_calls: Final = self._budgets.report_calls
        self.count_runs: Final = self._budgets.count_runs
        self.governed: Final = self._budgets.governed
        self.govern: Final = self._budgets.govern
        self.observe: Final = self._budgets.observe

        self.split: Final = self._parents.split
        self.parent: Final = self._parents.parent
        self.parents: Final = self._parents.parents
        self.parts: Final = self._parents.parts
        self.part_states: Final = self._parents.part_states
        self.set_parent: Final = self._parents.set_parent
        self.redrive: Final = self._parents.redrive

        self.import_jobs: Final = self._moving.import_jobs
        self.import_parent: Final = self._moving.import_parent
        self.import_keys: Final = self._moving.import_keys
        self.import_schedule: Final = self._moving.import_schedule

        self.schedules: Final = self._schedules.schedules
        self.seed_schedule: Final = self._schedules.seed_schedule
        self.put_schedule: Final = self._schedules.put_schedule
        self.set_schedule: Final = self._schedules.set_schedule
        self.drop_schedule: Final = self._schedules.drop_schedule
        self.due: Final = self._schedules.due
        self.fire: Final = self._schedules.fire

        self.cancel: Final = self._management.cancel
        self.delete: Final = self._management.delete
        self.retry: Final = self._management.retry
        self.change: Final = self._changes.change
        self.queues: Final = self._management.queues
        self.set_queue: Final = self._management.set_queue
        self.throttle: Final = self._management.throttle
        self.warm: Final = self._management.warm
        self.tasks: Final = self._management.tasks
        self.set_task: Final = self._management.set_task

        self.now: Final = self._cluster.now
        self.cluster_view: Final = self._cluster.cluster_view
        self.lead: Final = self._cluster.lead
        self.resign: Final = self._cluster.resign
        self.assign: Final = self._cluster.assign
        self.begin_chore: Final = self._cluster.begin_chore

        self.report: Final = self._measures.report
        self.rollup: Final = self._measures.rollup
        self.measured: Final = self._measures.measured
        self.totals: Final = self._measures.totals
        self.ended: Final = self._counts.ended
        self.count_ends: Final = self._counts.count_ends
        self.recount: Final = self._counts.recount
        self.events: Final = self._measures.events
        self.task_depths: Final = self._measures.task_depths
        self.causes: Final = self._measures.causes
        self.health: Final = self._measures.health
        self.diagnose: Final = self._diagnosis.diagnose

        self.job: Final = self._listing.job
        self.jobs: Final = self._listing.jobs
        self.matches: Final = self._listing.matches
        self.wait_finished: Final = self._listing.wait_finished
        self.depth: Final = self._listing.depth

        self.rotate: Final = self._retention.rotate
        self.expire: Final = self._retention.expire

    @property
    def schema(self) -> str:
        """The name of the schema that holds the logs."""
        return self._db.schema

    @property
    def read_only(self) -> str | None:
        """See Store.read_only."""
        return self._db.read_only

    async def open(self) -> None:
        """See Store.open. A restored or switched-over copy is adopted before anything else [rule 15]."""
        await self._db.open()
        await self._db.adopt()

    async def close(self) -> None:
        """See Store.close."""
        await self._claims.close()
        await self._parents.close()
        await self._listener.close()
        await self._db.close()

    async def migrate(self) -> Migration:
        """See Store.migrate."""
        connection = await self._db.connect()
        try:
            with translated():
                migration = await schemas.migrate(connection, self.schema, self.settings)
                await connection.close(timeout=self._db.deadline)
                return migration
        except StoreForbidden as error:
            why = str(error).partition(". ")[0]
            raise StoreForbidden(
                f"{why}; migrate as a role that owns the schema or, where there is none yet, may CREATE in "
                "the database"
            ) from error
        finally:
            connection.terminate()
