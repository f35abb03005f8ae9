"""The PostgreSQL store beside the model."""

import asyncio
from typing import ClassVar

import psycopg
import pytest
from hypothesis.stateful import run_state_machine_as_test

from tests.conformance.kit import ServerClock, make_template
from tests.model.machine import StoreMachine
from tests.model.pair import COUNTED, COUNTED_AS, SETTINGS, counts
from tests.model.profiles import ci, soak
from tests.model.side import Side
from tests.model.steps import Draw, action
from tests.postgres import Server
from windlass.store.postgres import PostgresStore


class PostgresMachine(StoreMachine):
    """A database of its own for each run, copied from a migrated one."""

    alone = True
    late = True
    server: ClassVar[Server]
    template: ClassVar[str]

    async def open_subject(self) -> Side:
        self.database = self.server.create_database(template=self.template)
        dsn = self.server.dsn(self.database)
        store = PostgresStore(dsn, settings=SETTINGS, head_cache=0.0, dump_grace=0.0)
        await store.open()
        self.clock = ServerClock(dsn)
        return Side(store, self.clock, self.run)

    async def close_subject(self) -> None:
        await self.clock.close()
        await self.other.store.close()
        self.server.drop_database(self.database)

    @action(1)
    def adopt(self, data: Draw) -> None:
        """[rule 15] The server was restored, or another has taken over: every worker is dead, what they held
        is offered again, and nobody leads. For the model all of them retire."""
        held = sum(self.model.do("retire", worker) for worker in sorted(self.alive))
        for candidate in range(1, 4):
            self.model.do("resign", candidate)
        with psycopg.connect(self.server.dsn(self.database), autocommit=True) as connection:
            assert connection.execute("SELECT windlass.adopt()").fetchone() == (held,)
        for worker in list(self.alive):
            self.alive.remove(worker)
            self.gone.append(worker)
            self.known[worker] = []
        self.new_worker()

    def depth_is_a_scan(self) -> None:
        """[M1] Of the view, as anybody with psql would count."""
        super().depth_is_a_scan()
        depth = self.run(self.other.depth())
        scan = {queue: dict.fromkeys(COUNTED, 0) for queue in depth}
        with psycopg.connect(self.server.dsn(self.database)) as connection:
            for queue, state, n in connection.execute(
                "SELECT queue, state, count(*) FROM windlass.job GROUP BY queue, state"
            ):
                if (counted := COUNTED_AS.get(state, state)) in COUNTED:
                    scan[queue][counted] += n
        for queue, standing in depth.items():
            scan[queue]["ready"] += standing.pending_parts  # no jobs yet
        assert counts(depth) == scan


@pytest.fixture
def machine(pg_server: Server) -> type[PostgresMachine]:
    """The machine, with a server and a template to copy."""
    PostgresMachine.server = pg_server
    PostgresMachine.template = asyncio.run(make_template(pg_server, SETTINGS))
    return PostgresMachine


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_postgres_does_what_the_model_does(machine: type[PostgresMachine]) -> None:
    """[C1] [C2] [C3] [C5] [C8] [E6] [E7] [O4] [O5] [O6] [K6] [M1] [F1] [F3] [F6] [P4] [P9] [P12]"""
    run_state_machine_as_test(machine, settings=ci(15, shrink=False))


@pytest.mark.soak
def test_postgres_does_so_for_hours(machine: type[PostgresMachine]) -> None:
    """The same, with a search that is longer in every direction."""
    run_state_machine_as_test(machine, settings=soak())
