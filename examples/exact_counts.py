"""Every receipt is accounted for: workers are killed, and the counts still equal the receipts.

python -m examples.exact_counts         # docs/guides/teams/exact-counts.md is about it
"""

import re
import time
from functools import partial

from examples.stage import page, place, prepare, until, worker
from windlass import Dead, Windlass

app = Windlass()


@app.task(queue="payments")
def settle(payment: int) -> None:
    """Four of the payments are refused for good."""
    time.sleep(0.002)
    if payment % 500 == 0:
        raise Dead("the bank refused it")


def scraped() -> dict[str, int]:
    """Ends by outcome, as /metrics tells Prometheus."""
    text = page(app, "/metrics")
    found = re.findall(r'^windlass_jobs_total{.*outcome="(succeeded|dead)".*} (\d+)', text, re.MULTILINE)
    return {outcome: int(number) for outcome, number in found}


def main(payments: int = 2000) -> None:
    """Enqueue, kill twice, and count by receipts, by the logs and by the metrics."""
    command = ("examples.exact_counts:app", "-q", "payments=4/process", "--lease", "1s", "--sweep", "200ms")
    with place(), app:
        prepare(app)
        calls = [settle.using(idempotency_key=f"payment-{number}") for number in range(payments)]
        ids = {call.enqueue(number).id for number, call in enumerate(calls)}
        again = calls[7].enqueue(7)  # a client that did not hear the answer asks again
        print(f"receipts  {len(ids):,}; the second one of payment 7 is {again.receipt!r}")
        queue = app.queue("payments")
        for left in (payments * 3 // 4, payments // 2):
            with worker(*command) as kill:
                until(partial(lambda left: queue.depth().ready < left, left))
                kill()
        with worker(*command):
            queue.wait_until_empty(timeout="60s")
        ended = {state: app.jobs(state=state).count().jobs for state in ("succeeded", "dead")}
        print(f"logs      {ended}, {sum(ended.values()) - len(ids)} more than receipts")
        print(f"metrics   {scraped()}")


if __name__ == "__main__":
    main()
