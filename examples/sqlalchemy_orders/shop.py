"""The shop: its table, its task, and the two functions that make an order."""

from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column
from sqlalchemy.pool import NullPool

from windlass import Retry, Windlass

jobs = Windlass()
url = jobs.settings.database_url.partition("://")[2]
engine = create_engine(f"postgresql+psycopg://{url}", poolclass=NullPool)
async_engine = create_async_engine(f"postgresql+asyncpg://{url}", poolclass=NullPool)


class Base(DeclarativeBase):
    """The shop's tables."""


class Order(Base):
    """What somebody ordered."""

    __tablename__ = "sqlalchemy_order"
    id: Mapped[int] = mapped_column(primary_key=True)
    email: Mapped[str]
    cents: Mapped[int]
    receipt: Mapped[bool] = mapped_column(default=False)


class Declined(Exception):
    """The payment was declined."""


@jobs.task(queue="mail", retry=Retry(3, base="1s"))
def send_receipt(order: int) -> str:
    """Mail the receipt of an order. It may run twice, so it looks whether it was sent."""
    with Session(engine) as session, session.begin():
        found = session.get_one(Order, order, with_for_update=True)
        if not found.receipt:
            print(f"To {found.email}: your order {order} is on its way.")
            found.receipt = True
        return found.email


def make_order(email: str, cents: int) -> int:
    """An order and its job, in one transaction."""
    with Session(engine) as session, session.begin():
        order = Order(email=email, cents=cents)
        session.add(order)
        session.flush()  # gives the order its id
        send_receipt.using(connection=session).enqueue(order.id)
        charge(order)  # what it raises takes back the order and its job
        return order.id


async def amake_order(email: str, cents: int) -> int:
    """The same in async code."""
    async with AsyncSession(async_engine) as session, session.begin():
        order = Order(email=email, cents=cents)
        session.add(order)
        await session.flush()
        await send_receipt.using(connection=session).aenqueue(order.id)
        charge(order)
        return order.id


def charge(order: Order) -> None:
    """Stands for your payment provider."""
    if order.cents <= 0:
        raise Declined("nobody can be charged nothing")
