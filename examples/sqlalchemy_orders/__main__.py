"""Make an order, have another one declined, run what there is to run, and tell."""

import asyncio

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from examples.sqlalchemy_orders.shop import Base, Declined, Order, amake_order, engine, jobs, make_order


def main() -> None:
    """Start here."""
    Base.metadata.create_all(engine)
    print("ordered  ", make_order("ada@example.org", 1999), asyncio.run(amake_order("bob@example.org", 500)))
    try:
        make_order("eve@example.org", 0)
    except Declined as error:
        print("declined ", error)
    with Session(engine) as session:
        print("orders   ", session.scalar(select(func.count()).select_from(Order)))
    print("jobs run ", jobs.run_until_idle(queues=["mail"]).succeeded)
    jobs.close()


if __name__ == "__main__":
    main()
