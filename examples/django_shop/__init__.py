"""A small shop in Django: an order and the job that mails its receipt commit together, or neither does.

    pip install 'windlass[django,postgres,web]' psycopg uvicorn
    export SHOP_DATABASE_URL=postgresql://user:password@localhost/shop      # without it: a file shop.db here
    python -m examples.django_shop.manage migrate                           # the shop's tables
    python -m examples.django_shop.manage windlass_migrate                  # Windlass's schema beside them
    python -m examples.django_shop.manage createsuperuser
    uvicorn examples.django_shop.asgi:application &                         # the shop, /admin/ and /windlass/
    python -m examples.django_shop.manage windlass_worker -p 2 &

    curl -X POST localhost:8000/orders/ -d email=ada@example.org -d cents=1999     # {"order": 1, …}
    curl -X POST localhost:8000/orders/ -d email=ada@example.org -d cents=0        # refused: no job
    curl localhost:8000/orders/1/                                                  # {"receipt": "sent", …}

`tasks.py` is what a worker runs, `views.py` where order and job are made, and `settings.py` what it takes to
have it: one entry in INSTALLED_APPS and one in TASKS. `tests.py` tries it all, jobs included, without a
worker:

    python -m examples.django_shop.manage test examples.django_shop
"""
