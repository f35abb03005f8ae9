"""Jobs: the search, one of them, and what can be done to those that were ticked."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final, cast
from urllib.parse import parse_qsl

import msgspec
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from windlass.core.read_errors import READ_ERRORS
from windlass.core.states import State
from windlass.endings import FOR_EVER
from windlass.errors import JobNotFound
from windlass.operations.groups import cancel_group, close_group, list_left
from windlass.operations.job_views import JobView, options_shown
from windlass.operations.jobs import (
    MANY,
    ONE,
    ListedJobs,
    Listing,
    change_job,
    list_jobs,
    replay_job,
    show_job,
)
from windlass.operations.refusals import Refusal
from windlass.operations.walks import Verb
from windlass.presentation.text import one_line
from windlass.store.records import JobFilter
from windlass.web.http.problems import Invalid, NotFound, Problem, found_id
from windlass.web.pages import figures, signals
from windlass.web.pages.forms import Form, go, read_form
from windlass.web.pages.overview import under_way
from windlass.web.pages.rendering import link, principal_of, render
from windlass.web.pages.search import NAMES, read_search, write_search
from windlass.web.service.service import Service

LISTED: Final = 50
MEANS: Final = {
    "retry": "Dead, scheduled and retrying jobs run now, with all their attempts again.",
    "cancel": "Waiting jobs are cancelled now. Running ones are asked to stop; one that finishes first stays "
    "succeeded.",
    "delete": "They are gone for good, with payload, errors and result. Running ones are asked to stop "
    "instead.",
}
DID: Final = {"retry": "retried", "cancel": "cancelled", "delete": "deleted"}
_UNDONE: Final = frozenset({"not_found", "unchanged", "finished"})
_NOTHING: Final = ListedJobs(jobs=[], cursor=None, looked=0, back_to=None)


async def listing(service: Service, request: Request) -> Response:
    """A search, newest first, in bounded steps. An id alone goes to its job."""
    principal, query = principal_of(request), request.query_params
    text, cursor = query.get("q", "").strip(), query.get("cursor") or None
    if text.isascii() and text.isdigit() and await _exists(service, request, text):
        return RedirectResponse(link(request, f"/jobs/{text}"), status_code=303)
    where, found, problem = JobFilter(), _NOTHING, ""
    named: dict[str, Any] = {name: query[name] for name in (*NAMES, "text") if query.get(name)}
    try:
        if named:  # as the search box says it
            words = f"{text} {write_search(JobFilter(**named))}".strip()
            return RedirectResponse(link(request, "/jobs", q=words, cursor=cursor), status_code=303)
        where = read_search(text)
        asked = Listing(**msgspec.structs.asdict(where), limit=LISTED, cursor=cursor)
        found = await service.run(principal, list_jobs, asked)
    except (Problem, Refusal) as error:
        if error.status != 400:
            raise
        problem = str(error)
    return render(
        request,
        "jobs.html",
        section="jobs",
        status=400 if problem else 200,
        q=text,
        where=where,
        with_state=lambda state: _with_state(where, state),
        found=found,
        problem=problem,
        cursor=cursor,
        bulks=await under_way(service, request),
        back=request.url.query,
    )


async def one(service: Service, request: Request) -> Response:
    """Everything about a job."""
    id = found_id(request.path_params["id"])
    job = await service.run(principal_of(request), show_job, id)
    waits = await signals.shown_on(service, request, id) if job.state == State.SCHEDULED else []
    left = await service.run(principal_of(request), list_left, id) if job.group is not None else []
    timeless = (figures.moment(job.run_at) or 0.0) - time.time() >= FOR_EVER
    about: dict[str, Any] = {"waits": waits, "left": left, "options": options_shown(job), "died": died}
    about["due"] = None if timeless else job.run_at
    return render(request, "job.html", section="jobs", job=job, **about)


async def act_on_one(service: Service, request: Request) -> Response:
    """Retry, cancel, delete, change or replay a job."""
    principal, id, form = principal_of(request), found_id(request.path_params["id"]), await read_form(request)
    here = f"/jobs/{id}"
    if form.text("do") == "signal":
        return await signals.answer(service, request, id, form)
    if form.text("do") == "replay":
        receipt = await service.run(principal, replay_job, id)
        return go(
            request, f"/jobs/{receipt.id}" if receipt.id else here, "replayed" if receipt.id else "none"
        )
    if form.text("do") == "change":
        changed = await service.run(principal, change_job, id, _changes(form))
        done = changed.answers[str(id)] == "changed"
        return go(request, here, "changed" if done else "none", 1 if done else None)
    if form.text("do") in ("close_group", "cancel_group"):
        return await _act_on_group(service, request, id, form.text("do"))
    do = verb_named(form.text("do"))
    answers = (await service.run(principal, ONE[do], id)).answers
    if do == "delete" and answers[str(id)] == "deleted":
        return go(request, "/jobs", "deleted", 1)
    done = answers[str(id)] not in _UNDONE
    return go(request, here, DID[do] if done else "none", 1 if done else None)


async def _act_on_group(service: Service, request: Request, id: int, do: str) -> Response:
    principal, here = principal_of(request), f"/jobs/{id}"
    if do == "cancel_group":
        cancelled = (await service.run(principal, cancel_group, id)).cancelled
        return go(request, here, "cancelled", cancelled + 1)
    closed = (await service.run(principal, close_group, id)).closed
    return go(request, here, "closed" if closed else "none")


async def act_on_ticked(service: Service, request: Request) -> Response:
    """Retry, cancel or delete the jobs that were ticked; what cannot be undone is asked about first."""
    form = await read_form(request)
    do, ids, back = verb_named(form.text("do")), form.ids(), form.text("back")
    path, query = _back(back)
    if not ids:
        return go(request, path, "picked", query=query)
    if do != "retry" and not form.text("sure"):
        return render(request, "sure.html", section="jobs", verb=do, ids=ids, means=MEANS[do], back=back)
    answers = (await service.run(principal_of(request), MANY[do], ids)).answers
    done = sum(answer not in _UNDONE for answer in answers.values())
    return go(request, path, DID[do] if done else "none", done or None, query)


def _changes(form: Form) -> dict[str, Any]:
    """Return what a form asks to change; an empty field stays as it is."""
    given: dict[str, Any] = {
        name: form.text(name) for name in ("queue", "priority", "delay") if form.text(name)
    }
    if text := form.text("arguments"):
        try:
            arguments = msgspec.json.decode(text)
        except READ_ERRORS as error:
            raise Invalid(f"arguments: this is not JSON: {error}", "arguments") from None
        if not isinstance(arguments, dict | list):
            raise Invalid("arguments: give an object of named ones, or an array", "arguments")
        given["kwargs" if isinstance(arguments, dict) else "args"] = arguments
    return given


def verb_named(word: str) -> Verb:
    """Return the act on jobs of this name."""
    if word not in MEANS:
        raise Invalid("do must be retry, cancel or delete", "do")
    return cast("Verb", word)


def died(job: JobView) -> str:
    """Why a job is dead, with the error that it died of."""
    used_up = (
        "its only attempt failed" if job.max_attempts == 1 else f"all {job.max_attempts:,} attempts failed"
    )
    reasons = [used_up if job.reason == "exhausted" else job.reason]
    if job.errors and job.errors[-1].message != job.reason:  # what raised Dead has said both
        reasons.append(f"{job.errors[-1].type}: {job.errors[-1].message}")
    return "; ".join(one_line(words, 500) for words in reasons if words)


def _back(words: str) -> tuple[str, Mapping[str, str]]:
    """Where the jobs were ticked: only ever one of our own listings."""
    path, _, query = words.rpartition("?")
    kept = {key: value for key, value in parse_qsl(query)[:10] if key in ("q", "cursor", "queue", "task")}
    return ("/dead" if path == "/dead" else "/jobs"), kept


def _with_state(where: JobFilter, state: str) -> str:
    return write_search(msgspec.structs.replace(where, state=State(state) if state else None))


async def _exists(service: Service, request: Request, text: str) -> bool:
    try:
        await service.run(principal_of(request), show_job, found_id(text))
    except (JobNotFound, NotFound):
        return False
    return True
