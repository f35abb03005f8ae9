"""Orders with SQLAlchemy: an order and the job that mails its receipt commit together, or neither does.

    pip install 'windlass[postgres,sqlalchemy]' 'psycopg[binary]'
    export WINDLASS_DATABASE_URL=postgresql://user:password@localhost/shop
    windlass migrate
    python -m examples.sqlalchemy_orders            # makes two orders, one of which is rolled back
    windlass worker examples.sqlalchemy_orders.shop:jobs -q mail=4

`shop.py` has it both ways: a Session, and an AsyncSession. Jobs and orders must live in one PostgreSQL
database for that; with jobs elsewhere, enqueue after the commit.
"""
