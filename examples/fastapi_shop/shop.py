"""The shop: its task, its lifespan, and its routes."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
from fastapi import FastAPI, HTTPException
from pydantic import BaseModel, PositiveInt

from windlass import Retry, Windlass
from windlass.errors import JobNotFound

jobs = Windlass()
TABLE = """CREATE TABLE IF NOT EXISTS fastapi_order
           (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, email text NOT NULL, cents int NOT NULL)"""


@jobs.task(queue="mail", retry=Retry(3, base="1s"))
async def send_receipt(order: int, email: str) -> str:
    """Stands for your mail provider; pass it the order, so that it can drop what comes twice."""
    return f"To {email}: your order {order} is on its way."


@asynccontextmanager
async def lifespan(api: FastAPI) -> AsyncIterator[None]:
    """For as long as the service lives: a store of Windlass's on this event loop, and a pool for the shop."""
    async with jobs, asyncpg.create_pool(jobs.settings.database_url, min_size=1, max_size=4) as pool:
        await pool.execute(TABLE)
        api.state.pool = pool
        yield


api = FastAPI(title="Shop", lifespan=lifespan)
api.mount("/windlass", jobs.web())


class NewOrder(BaseModel):
    """What somebody wants to order."""

    email: str
    cents: PositiveInt


class MadeOrder(BaseModel):
    """An order, and the job that mails its receipt."""

    order: int
    job: str


@api.post("/orders", status_code=201)
async def make_order(new: NewOrder) -> MadeOrder:
    """An order and its job, in one transaction."""
    async with api.state.pool.acquire() as connection, connection.transaction():
        insert = "INSERT INTO fastapi_order (email, cents) VALUES ($1, $2) RETURNING id"
        order = await connection.fetchval(insert, new.email, new.cents)
        job = await send_receipt.using(connection=connection).aenqueue(order, new.email)
        charge(new)  # what it raises takes back the order and its job
        return MadeOrder(order=order, job=str(job))


@api.get("/jobs/{job}")
async def show_job(job: int) -> dict[str, Any]:
    """How a job stands."""
    try:
        record = await jobs.job(job).arecord()
    except JobNotFound as error:
        raise HTTPException(404, str(error)) from error
    return {"state": record.state, "attempt": record.attempt, "result": record.result}


def charge(new: NewOrder) -> None:
    """Stands for your payment provider."""
    if new.email.endswith("@declined.example"):
        raise HTTPException(402, "the card was declined")
