"""What is asked of the web server: every page, every GET call that its OpenAPI document names, and the bodies
that are sent to it."""

from __future__ import annotations

import re
from typing import Final

import msgspec

from bench.engine.web.client import Line, get
from bench.engine.web.fill import BACKLOG, QUEUES, TASKS, Filled
from bench.engine.web.plan import WebPlan

DOCUMENT: Final = "/api/openapi.json"
STREAM: Final = "/api/stream"
SINGLE_PATH: Final = "/api/jobs"
BATCH_PATH: Final = "/api/jobs/batch"
INBOX: Final = "inbox"
"""The queue that jobs come into over HTTP; nobody serves it."""
WATCHED: Final = ("/", "/queues", "/jobs")
"""What viewers have open."""
PAGES: Final = (
    *(
        "/",
        "/queues",
        f"/queues/{QUEUES[0]}",
        f"/queues/{BACKLOG}",
        "/jobs",
        "/parents",
        "/dead",
        "/schedules",
    ),
    *("/budgets", "/workers", "/operations", "/events", "/metrics", "/healthz", "/readyz"),
)
SEARCHES: Final = {"state": "dead", "task": TASKS[3], "queue": BACKLOG, "tag": "night", "text": "90001"}
"""Of jobs: the page and the call once with each."""


class _Document(msgspec.Struct):
    """As much of an OpenAPI document as is needed here."""

    paths: dict[str, dict[str, object]]


async def find_paths(host: str, port: int, filled: Filled) -> dict[str, str]:
    """Every path that can be asked for, with something to show behind it, by a name that is the same in every
    run."""
    line = await Line.open(host, port)
    document = msgspec.json.decode((await line.ask(get(DOCUMENT))).body, type=_Document)
    line.close()
    calls = [path for path, verbs in document.paths.items() if "get" in verbs and path != STREAM]
    searches = [value if name == "text" else f"{name}:{value}" for name, value in SEARCHES.items()]
    plain = [
        *PAGES,
        *(f"/jobs?q={search}" for search in searches),
        *(path for path in calls if "{" not in path),
        *(f"{SINGLE_PATH}?{name}={value}" for name, value in SEARCHES.items()),
    ]
    return {path: path for path in plain} | _named(calls, filled)


def _named(calls: list[str], filled: Filled) -> dict[str, str]:
    """Those that show one of many. What the store holds none of is left out."""
    jobs = {"finished": filled.finished, "dead": filled.dead, "ready": filled.ready}
    found = {f"/jobs/{{id}} ({kind})": f"/jobs/{id}" for kind, id in jobs.items()}
    found["/parents/{id}"] = f"/parents/{filled.parent}"
    known = {"jobs": filled.finished, "parents": filled.parent, "queues": QUEUES[0], "tasks": TASKS[0]}
    for call in calls:
        place = re.search(r"/(\w+)/\{\w+\}", call)
        if place is not None and place[1] in known:
            found[call] = re.sub(r"\{\w+\}", str(known[place[1]]), call, count=1)
    return found


def single_body(plan: WebPlan) -> str:
    """One job."""
    return msgspec.json.encode(_job(plan)).decode()


def batch_body(plan: WebPlan) -> str:
    """A batch of them."""
    return msgspec.json.encode({"jobs": [_job(plan)] * plan.http_batch}).decode()


def _job(plan: WebPlan) -> dict[str, object]:
    return {"task": TASKS[0], "queue": INBOX, "kwargs": {"n": 1, "text": "x" * plan.payload_bytes}}
