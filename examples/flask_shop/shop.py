"""The shop: its task and its routes."""

from typing import Any

import psycopg
from flask import Flask, g, request

from windlass import Retry, Windlass
from windlass.errors import JobFailed, JobNotFound, ResultTimeout

jobs = Windlass()
web = Flask(__name__)
TABLE = """CREATE TABLE IF NOT EXISTS flask_order
           (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, email text NOT NULL, cents int NOT NULL)"""


class Declined(Exception):
    """The payment was declined."""


@jobs.task(queue="mail", retry=Retry(3, base="1s"))
def send_receipt(order: int, email: str) -> str:
    """Stands for your mail provider; pass it the order, so that it can drop what comes twice."""
    return f"To {email}: your order {order} is on its way."


def database() -> psycopg.Connection[Any]:
    """The connection of this request; closing it takes back what was not committed."""
    if "connection" not in g:
        g.connection = psycopg.connect(jobs.settings.database_url)
    return g.connection  # type: ignore[no-any-return]


@web.teardown_appcontext
def close(_: BaseException | None) -> None:
    """The request is over, however it ended."""
    if "connection" in g:
        g.pop("connection").close()


@web.cli.command("init-db")
def create_table() -> None:
    """Create the shop's table."""
    with database() as connection:
        connection.execute(TABLE)


@web.post("/orders")
def make_order() -> tuple[dict[str, Any], int]:
    """An order and its job, in one transaction."""
    email, cents = request.form["email"], int(request.form["cents"])
    connection = database()
    with connection.transaction():
        insert = "INSERT INTO flask_order (email, cents) VALUES (%s, %s) RETURNING id"
        ((order,),) = connection.execute(insert, (email, cents)).fetchall()
        job = send_receipt.using(connection=connection).enqueue(order, email)
        charge(cents)  # what it raises takes back the order and its job
    return {"order": order, "job": str(job)}, 201


@web.errorhandler(Declined)
def declined(error: Declined) -> tuple[dict[str, Any], int]:
    """Tell why there is no order."""
    return {"error": str(error)}, 402


def charge(cents: int) -> None:
    """Stands for your payment provider."""
    if cents <= 0:
        raise Declined("nobody can be charged nothing")


@web.get("/jobs/<int:id>")
def show_job(id: int) -> tuple[dict[str, Any], int]:
    """How a job stands; with ?wait=5, once it has ended or five seconds have passed."""
    job = jobs.job(id)
    try:
        if wait := request.args.get("wait", type=float):
            return {"result": job.result(timeout=max(0.0, min(wait, 30.0)))}, 200
        return {"state": job.status()}, 200
    except ResultTimeout:
        return {"state": job.status()}, 202
    except JobFailed as error:
        return {"state": job.status(), "error": str(error)}, 200


@web.errorhandler(JobNotFound)
def unknown(error: JobNotFound) -> tuple[dict[str, Any], int]:
    """Wherever it is met: a job may be removed while somebody waits for it."""
    return {"error": str(error)}, 404
