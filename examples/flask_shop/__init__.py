"""A shop in Flask: plain functions, a psycopg connection for each request, order and job in one transaction.

pip install 'windlass[postgres]' 'psycopg[binary]' flask
export WINDLASS_DATABASE_URL=postgresql://user:password@localhost/shop
windlass migrate
flask --app examples.flask_shop.shop:web init-db
flask --app examples.flask_shop.shop:web run &
windlass worker examples.flask_shop.shop:jobs -q mail=4 &

curl -X POST localhost:5000/orders -d email=ada@example.org -d cents=1999
curl localhost:5000/jobs/JOB?wait=5             # the id that the first answered with
"""
