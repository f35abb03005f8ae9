"""docs/guides/coming-from-skip-locked.md, end to end: a hand-written table with a worker loop is moved to
Windlass by the statements of the guide, and every row runs once."""

import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest

from tests.cli.kit import Desk
from tests.conformance.kit import Rig
from tests.docs.pages import ROOT, blocks
from windlass.core.states import State

TABLE, MOVE, TRIGGER, MOVE_SOME, _ = [
    block.text
    for block in blocks(ROOT / "docs" / "guides" / "coming-from-skip-locked.md", "sql")
    if "INSERT INTO job_queue (kind" not in block.text
]


class Old:
    """The system that is left behind: a table, and a worker that counts what it ran."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        self.ran: Counter[int] = Counter()
        self.execute(TABLE)

    def execute(self, sql: str) -> list[tuple[object, ...]]:
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            cursor = connection.execute(sql.encode())
            return cursor.fetchall() if cursor.description else []

    def fill(self, n: int) -> None:
        """So many rows; each third has failed twice, each tenth is for later."""
        self.execute(
            "INSERT INTO job_queue (kind, payload, attempts, run_at) SELECT 'mail.send', "
            "json_build_object('n', g), CASE WHEN g % 3 = 0 THEN 2 ELSE 0 END, "
            "now() + CASE WHEN g % 10 = 0 THEN interval '1 hour' ELSE interval '0' END "
            f"FROM generate_series(1, {n}) g"
        )

    def left(self) -> int:
        ((n,),) = self.execute("SELECT count(*) FROM job_queue")
        assert isinstance(n, int)
        return n

    def step(self, connection: "psycopg.Connection[tuple[object, ...]]") -> bool:
        """Run one row, as such workers do: it is locked until it has run."""
        with connection.transaction():
            row = connection.execute(
                "SELECT id, payload FROM job_queue WHERE status = 'pending' AND run_at <= now() "
                "ORDER BY run_at, id LIMIT 1 FOR UPDATE SKIP LOCKED"
            ).fetchone()
            if row is None:
                return False
            connection.execute("DELETE FROM job_queue WHERE id = %s", [row[0]])
        assert isinstance(row[1], dict)
        self.ran[row[1]["n"]] += 1
        return True

    @contextmanager
    def working(self) -> Iterator[None]:
        done = threading.Event()

        def work() -> None:
            with psycopg.connect(self.dsn, autocommit=True) as connection:
                while not done.is_set():
                    self.step(connection)

        threads = [threading.Thread(target=work) for _ in range(2)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            done.set()
            for thread in threads:
                thread.join()


@pytest.fixture
def old(pg_dsn: str) -> Old:
    return Old(pg_dsn)


async def drained(rig: Rig, ran: Counter[int], until: threading.Event | None = None) -> list[int]:
    """Run what is due on Windlass, and return it in the order in which it was claimed."""
    order: list[int] = []
    worker = await rig.worker("mail")
    idle = 0
    while idle < 2:
        promoted = await rig.store.promote()
        jobs = await rig.claim(worker, "mail")
        order += [json.loads(job.payload)["n"] for job in jobs]
        await rig.finish(worker, jobs)
        idle = idle + 1 if not jobs and not promoted.due and (until is None or until.is_set()) else 0
    await rig.store.retire(worker)
    ran.update(order)
    return order


def test_nine_thousand_rows_move_in_one_statement_with_their_attempts(old: Old) -> None:
    old.fill(9000)
    with psycopg.connect(old.dsn, autocommit=True) as connection:
        for _ in range(100):
            assert old.step(connection)
    assert old.execute(MOVE) == [("imported", 8900)]
    assert old.left() == 0
    new: Counter[int] = Counter()

    async def check(rig: Rig) -> None:
        (later, *_) = await rig.listing(state=State.RETRYING, queue="mail")
        assert (later.attempt, later.options.max_attempts) == (3, 5)
        await rig.store.promote()
        worker = await rig.worker("mail")
        jobs = await rig.claim(worker, "mail", limit=50)
        await rig.finish(worker, jobs)
        numbers = [json.loads(job.payload)["n"] for job in jobs]
        assert numbers == sorted(numbers)  # in the order given
        assert all(job.attempt == (3 if n % 3 == 0 else 1) for job, n in zip(jobs, numbers, strict=True))
        await rig.store.retire(worker)
        new.update(numbers)
        rest = await drained(rig, new)
        assert rest == sorted(rest)

    Desk(old.dsn).visit(check)
    both = old.ran + new
    assert set(both.values()) == {1}
    assert set(both) == {n for n in range(1, 9001) if n % 10} | set(old.ran)
    assert Desk(old.dsn).visit(lambda rig: rig.depth("mail")).ready == 0


def test_a_move_that_is_rolled_back_has_not_happened(old: Old) -> None:
    old.fill(30)
    with psycopg.connect(old.dsn) as connection:
        connection.execute(MOVE.encode())
        connection.rollback()
    assert old.left() == 30
    assert Desk(old.dsn).visit(lambda rig: rig.listing()) == []
    assert old.execute(MOVE) == [("imported", 30)]
    assert old.execute(MOVE) == []  # nothing is left, and that is no error


def test_rows_move_while_both_run_and_each_runs_once(old: Old) -> None:
    """Old workers, producers that still insert, and Windlass at the same time."""
    old.execute(
        "INSERT INTO job_queue (kind, payload) SELECT 'mail.send', json_build_object('n', g) "
        "FROM generate_series(1, 3000) g"
    )
    old.execute(TRIGGER)
    new: Counter[int] = Counter()
    moved = threading.Event()
    windlass = threading.Thread(
        target=lambda: Desk(old.dsn).visit(lambda rig: drained(rig, new, moved)), daemon=True
    )
    windlass.start()
    with old.working():
        n, empty = 3000, 0
        while empty < 3 or old.left():
            n += 1
            old.execute(f"INSERT INTO job_queue (kind, payload) VALUES ('mail.send', '{{\"n\": {n}}}')")
            empty = 0 if old.execute(MOVE_SOME) else empty + 1
    moved.set()
    windlass.join(60)
    assert not windlass.is_alive()
    both = old.ran + new
    assert set(both.values()) == {1}
    assert set(both) == set(range(1, n + 1))
    assert len(new) >= n - 3000  # what came in by the trigger, at least


def test_a_key_is_imported_once_and_a_malformed_job_not_at_all(pg_dsn: str) -> None:
    def call(jobs: str) -> list[tuple[object, ...]]:
        with psycopg.connect(pg_dsn, autocommit=True) as connection:
            return connection.execute(
                "SELECT key, status FROM windlass.import_jobs('old', %s::json)", [jobs]
            ).fetchall()

    assert call('[{"key": "1", "task": "t"}]') == [("1", "imported")]
    assert call('[{"key": "1", "task": "t"}, {"key": "2", "task": "t"}]') == [
        ("1", "repeated"),
        ("2", "imported"),
    ]
    with pytest.raises(psycopg.Error, match="a job of task t has no key"):
        call('[{"task": "t"}]')
    with pytest.raises(psycopg.Error, match="a job has no field 'atempt'"):
        call('[{"key": "3", "task": "t", "atempt": 3}]')
    for wrong in (
        '[{"key": "3", "task": "T!"}]',
        '[{"key": "3", "task": "t", "attempt": 0}]',
        '[{"key": "3", "task": "t", "state": "done"}]',
        '[{"key": "3", "task": "t", "after": ["none"]}]',
        '[{"key": "3", "task": "t", "priority": "huge"}]',
    ):
        with pytest.raises(psycopg.Error):
            call(wrong)
    with psycopg.connect(pg_dsn) as connection:
        assert connection.execute("SELECT key FROM windlass.imported ORDER BY 1").fetchall() == [
            ("1",),
            ("2",),
        ]
