"""A worker with nothing to do: what it and the server spend meanwhile, and how often it asks."""

from __future__ import annotations

import time
from typing import Any

import psycopg

from bench.meters import family_cpu, spent
from bench.peers.plan import Plan
from bench.peers.program import Program, settled
from bench.peers.subjects import Subject
from bench.servers import Servers

CONNECTIONS = """
SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
"""
TRANSACTIONS = "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()"


def cost(servers: Servers, subject: Subject, plan: Plan, processes: int = 1) -> dict[str, Any]:
    """Per cent of one core, transactions a second and connections, of so many processes together."""
    with servers.fresh(subject.store) as place:
        program = Program(subject, place)
        program.tell("prepare")
        with program.working(processes) as process, psycopg.connect(place.url, autocommit=True) as connection:
            settled(process)
            before, cpu, asked = place.meter.read(), family_cpu(process), _transactions(connection)
            time.sleep(plan.idle)
            asked = _transactions(connection) - asked
            connections = _number(connection, CONNECTIONS)
            used, cpu = spent(before, place.meter.read()), family_cpu(process) - cpu
    figures = {"worker_percent": 100 * cpu / plan.idle, "transactions": asked / plan.idle}
    figures["connections"] = connections
    if used.server is not None:
        figures["server_percent"] = 100 * used.server / plan.idle
    return figures


def _transactions(connection: psycopg.Connection[Any]) -> float:
    """Of the database so far; the counting itself is one or two of them."""
    connection.execute("SELECT pg_stat_clear_snapshot()")
    return _number(connection, TRANSACTIONS)


def _number(connection: psycopg.Connection[Any], query: str) -> float:
    row = connection.execute(query).fetchone()
    assert row is not None
    return float(row[0])
