"""Pages in Django's admin: jobs, dead jobs and queues, to look at, and to retry and cancel jobs. `admin`
registers them with the default site, `sites` with one of your own.

They reach the store through `admin_store`; the models only lend their names and permissions. `view` is needed
to see them, `change` to act. Mission Control does the rest; the pages link to it where the setting
MISSION_CONTROL_URL has its address.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, Final, cast
from urllib.parse import urlencode

from django.conf import settings
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import path, reverse
from django.utils.html import format_html

from windlass.contrib.django import admin_store
from windlass.contrib.django.app import first_backend, get_app, windlass_backends
from windlass.contrib.django.models import Dead, Job, Queue
from windlass.core.ids import MAX_ID, read
from windlass.core.states import State
from windlass.errors import ConfigurationError, StoreError
from windlass.operations.bulk import in_words
from windlass.operations.jobs import Listing
from windlass.operations.refusals import Refusal

VERBS: Final = ("retry", "cancel")
PAGE: Final = 50
TIMES: Final = {"enqueued": "enqueued", "due": "run", "claimed": "claimed", "finished": "finished"}


class StorePages(admin.ModelAdmin):
    """Admin pages whose content is in a store of Windlass's and not in a table of Django's."""

    page = ""
    """The template of the listing."""

    def has_add_permission(self, request: Any) -> bool:
        """Jobs are made by code."""
        return False

    def has_delete_permission(self, request: Any, obj: Any = None) -> bool:
        """Nothing is deleted here."""
        return False

    def get_urls(self) -> list[Any]:
        """The listing alone; the other pages of a model have nothing to show."""
        view = self.admin_site.admin_view(self.changelist_view)
        return [path("", view, name=f"windlass_{self.opts.model_name}_changelist")]

    def changelist_view(self, request: Any, extra_context: Any = None) -> Any:
        """The listing, or the action on what is ticked in it."""
        return self.viewed(request, lambda: self.answer(request))

    def viewed(self, request: Any, page: Callable[[], Any]) -> Any:
        """A page for those who may view it; an empty one with a message where the store does not answer."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        try:
            return page()
        except (StoreError, ConfigurationError) as error:
            messages.error(request, f"the store does not answer: {type(error).__name__}: {error}")
            return self.show(request, self.page, {"filters": []})

    def answer(self, request: Any) -> Any:
        """Return the answer of the page."""
        raise NotImplementedError

    def show(self, request: Any, template: str, context: dict[str, Any]) -> Any:
        """A page in the style of the admin, whose links stay on its site."""
        request.current_app = self.admin_site.name
        return TemplateResponse(
            request,
            f"admin/windlass/{template}.html",
            {
                **self.admin_site.each_context(request),
                "opts": self.opts,
                "title": str(self.opts.verbose_name_plural).capitalize(),
                "mission_control": getattr(settings, "MISSION_CONTROL_URL", None),
                "may_change": self.has_change_permission(request),
                "backend": backend_of(request),
                **context,
                "filters": context["filters"] if "filters" in context else self.filters(request),
            },
        )

    def filters(self, request: Any) -> list[tuple[str, list[Any]]]:
        """The filters of the listing: titles, and the links below each."""
        aliases = windlass_backends()
        return [("backend", links(request, "backend", aliases))] if len(aliases) > 1 else []


class JobPages(StorePages):
    """Jobs: listing, one job, retry and cancel."""

    page = "jobs"
    only: State | None = None
    """The state that these pages are limited to. Permissions for these jobs give none for others."""

    def get_urls(self) -> list[Any]:
        """The listing, and a page for each job."""
        view = self.admin_site.admin_view(self.job_view)
        return [*super().get_urls(), path("<int:id>/", view, name=f"windlass_{self.opts.model_name}_change")]

    def answer(self, request: Any) -> Any:
        """A page of jobs, newest first."""
        if request.method == "POST":
            return self.act(request, request.POST.getlist("_selected_action"), request.get_full_path())
        chosen = {name: request.GET.get(name) or None for name in ("queue", "task", "text", "error")}
        cursor = request.GET.get("cursor") or None
        try:
            state = self.only or (State(request.GET["state"]) if request.GET.get("state") else None)
            found = admin_store.list_jobs(
                app_of(request), Listing(state=state, **chosen, limit=PAGE, cursor=cursor)
            )
        except (ValueError, Refusal) as error:
            raise Http404(f"there is no such listing: {error}") from error
        more = found.cursor and f"?{urlencode({**request.GET.dict(), 'cursor': found.cursor})}"
        rows = [(job, moment_of(job.enqueued_at)) for job in found.jobs]
        return self.show(request, self.page, {"rows": rows, "more": more, "chosen": chosen})

    def job_view(self, request: Any, id: int) -> Any:
        """One job: why it waits or failed, its arguments, its errors."""
        return self.viewed(request, lambda: self.answer_about(request, id))

    def answer_about(self, request: Any, id: int) -> Any:
        """Return the answer of one job's page."""
        if request.method == "POST":
            # Pages of one state do not find the job any more, once something was done to it.
            back = request.get_full_path() if self.only is None else f"../?{request.GET.urlencode()}"
            return self.act(request, [str(id)], back)
        job = admin_store.show_job(app_of(request), id) if id <= MAX_ID else None
        if job is None or self.only not in (None, job.state):
            raise Http404(f"there is no job {id}: it was deleted, or its retention has passed")
        texts = {"arguments": job.payload, "result": job.result}
        times = {name: moment_of(getattr(job, f"{field}_at")) for name, field in TIMES.items()}
        about = {"job": job, "texts": texts, "times": times, "title": f"Job {id}"}
        return self.show(request, "job", about)

    def act(self, request: Any, words: Iterable[str], back: str) -> Any:
        """Retry or cancel the jobs of these ids, say what came of it, and go back."""
        if not self.has_change_permission(request):
            raise PermissionDenied
        verb = request.POST.get("action")
        ids = [id for id in map(read, words) if id is not None]
        if verb not in VERBS or not ids:
            messages.warning(request, "Choose jobs, and whether to retry or cancel them.")
        else:
            who = f"{request.user.get_username()}@admin"
            answers = admin_store.manage(app_of(request), cast("admin_store.Verb", verb), ids, who, self.only)
            messages.success(request, f"{verb}: {in_words(Counter(answers.values()))}")
        return HttpResponseRedirect(back)

    def filters(self, request: Any) -> list[tuple[str, list[Any]]]:
        """By state and queue; a task is written into the search box."""
        queues = [row.name for row in admin_store.list_queues(app_of(request))]
        states = [] if self.only else [("state", links(request, "state", [str(state) for state in State]))]
        return [*super().filters(request), *states, ("queue", links(request, "queue", queues))]


class DeadPages(JobPages):
    """Dead jobs."""

    only: State | None = State.DEAD


class QueuePages(StorePages):
    """Queues: what waits, runs and died in each, and what holds it up."""

    page = "queues"

    def answer(self, request: Any) -> Any:
        """Every queue."""
        jobs = reverse(f"{self.admin_site.name}:windlass_job_changelist")
        rows = [
            (format_html('<a href="{}?{}">{}</a>', jobs, urlencode({"queue": row.name}), row.name), row)
            for row in admin_store.list_queues(app_of(request))
        ]
        return self.show(request, self.page, {"rows": rows})


PAGES: Final[dict[Any, type[StorePages]]] = {Job: JobPages, Dead: DeadPages, Queue: QueuePages}


def backend_of(request: Any) -> str:
    """The backend that a page is about: the one asked for, else the first. Raises Http404."""
    wish = request.GET.get("backend")
    if wish and wish not in windlass_backends():
        raise Http404(f"{wish} is no backend of Windlass's in TASKS")
    return wish or first_backend()


def app_of(request: Any) -> Any:
    """The Windlass app that a page is about."""
    return get_app(backend_of(request))


def links(request: Any, name: str, values: Iterable[str]) -> list[Any]:
    """Links that filter a listing by one of these values, or by none, from its first page on."""
    chosen = request.GET.get(name) or ""
    kept = {key: value for key, value in request.GET.items() if key not in (name, "cursor") and value}
    found = [(f"?{urlencode(kept)}", "All", not chosen)]
    return found + [(f"?{urlencode({**kept, name: value})}", value, value == chosen) for value in values]


def moment_of(text: str | None) -> datetime | None:
    """Return a time as Django shows it."""
    return None if text is None else datetime.fromisoformat(text)
