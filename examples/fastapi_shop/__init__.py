"""A shop in FastAPI: orders and jobs in one transaction, Mission Control at /windlass/, a lifespan that opens
and closes it all.

    pip install 'windlass[postgres,web]' fastapi
    export WINDLASS_DATABASE_URL=postgresql://user:password@localhost/shop
    export WINDLASS_WEB_OPERATE=ada:a-long-secret       # who may use Mission Control
    windlass migrate
    uvicorn examples.fastapi_shop.shop:api &
    windlass worker examples.fastapi_shop.shop:jobs -q mail=4 &

    curl -X POST localhost:8000/orders -H 'Content-Type: application/json' -d '{"email": "ada@example.org", "cents": 1999}'
    curl localhost:8000/jobs/JOB                        # the id that the first answered with
    open http://localhost:8000/windlass/

`test_shop.py` tries it, jobs included, without a worker, in a database to try things in:

    pytest examples/fastapi_shop
"""  # noqa: E501 - a command that can be copied
