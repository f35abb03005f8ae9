"""Changes go to a partner: 40 a second, in order, and producers are told when it is too much.

python -m examples.paced_calls          # docs/guides/teams/paced-queues.md is about it
"""

import json
import subprocess
import sys
import time

from examples.stage import place, prepare, transaction, worker
from windlass import Windlass
from windlass.errors import QueueFull

app = Windlass()
app.budget("partner", rate="40/s", burst=10)  # for the whole cluster, whatever dies or restarts
TABLE = "CREATE TABLE IF NOT EXISTS call (at double precision, account integer, change integer)"


@app.task(queue="partner", budgets=["partner"], ordering_key="account")
def push(account: int, change: int) -> None:
    """Call the partner: one call for an account at a time, in the order of their commits."""
    with transaction(app) as connection:
        connection.execute("INSERT INTO call VALUES ($1, $2, $3)", (time.time(), account, change))


def produce(changes: int) -> int:
    """Enqueue changes of forty accounts, at the pace of the queue; how often that had to wait."""
    waits = 0
    for number in range(changes):
        while True:
            try:
                push.enqueue(account=number % 40, change=number // 40)
                break
            except QueueFull as full:
                waits += 1
                time.sleep(min(full.retry_after, 0.2))  # a web app would answer 429 with Retry-After
    return waits


def main(changes: int = 160) -> None:
    """Produce faster than the partner allows, and look at what it saw."""
    with place(), app, worker("examples.paced_calls:app", "-q", "partner=8", "-p", "2"):
        prepare(app, TABLE)
        app.queue("partner").ensure(max_depth=20)
        waits = produce(changes)
        app.queue("partner").wait_until_empty(timeout="60s")
        watermarks = [sys.executable, "-m", "windlass", "watermarks", "partner", "--json"]
        marks = json.loads(subprocess.check_output(watermarks))["watermarks"]
        with transaction(app) as connection:
            calls = connection.execute("SELECT at, account, change FROM call ORDER BY at").fetchall()
    print(f"calls     {len(calls)}, at {len(calls) / (calls[-1][0] - calls[0][0]):.0f} a second")
    order = [[change for _, key, change in calls if key == account] for account in range(40)]
    print(f"order     kept for {sum(each == sorted(each) for each in order)} of {len(order)} accounts")
    print(f"watermark {min(mark['position'] for mark in marks)} of {changes // 40} for all {len(marks)}")
    print(f"producer  waited {waits} times")


if __name__ == "__main__":
    main()
