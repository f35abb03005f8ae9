"""The admin's pages: who sees what, what they show, and what can be done there."""

import re
from pathlib import Path
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.admin import AdminSite
from django.contrib.auth.models import Permission, User
from django.core.management import call_command
from django.test import Client, override_settings
from django.urls import path

from tests.contrib.django import kit
from windlass import Windlass
from windlass.contrib.django import admin_store
from windlass.contrib.django.api import TaskResultDoesNotExist
from windlass.contrib.django.app import reread
from windlass.contrib.django.sites import WindlassPages
from windlass.core.states import State
from windlass.errors import StoreUnavailable
from windlass.store.records import Report
from windlass.store.sqlite import SQLiteStore


@pytest.fixture
def ada(jobs: Windlass) -> Any:
    """Somebody of the staff who may do everything, logged in."""
    return login(is_superuser=True)


@pytest.fixture(autouse=True)
def nobody(jobs: Windlass) -> Any:
    """Each test makes its own users."""
    User.objects.all().delete()


def login(*permissions: str, is_staff: bool = True, is_superuser: bool = False) -> Client:
    user = User.objects.create_user("ada", is_staff=is_staff, is_superuser=is_superuser)
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    client = Client()
    client.force_login(user)
    return client


def page(client: Client, path: str, **values: str) -> str:
    answer = client.get(f"/admin/windlass/{path}", values)
    assert answer.status_code == 200
    return str(answer.content.decode())


def listed(client: Client, path: str, **values: str) -> set[str]:
    """The ids of the jobs in a listing."""
    return set(re.findall(r"<th><a href=\"\d+/[^\"]*\">(\d+)</a></th>", page(client, path, **values)))


def test_jobs_are_listed_and_narrowed_down(jobs: Windlass, ada: Client) -> None:
    done, died = kit.add.enqueue(1), kit.give_up.enqueue()
    jobs.run_until_idle()
    waits = kit.fail.enqueue("<b>no</b>")
    assert listed(ada, "job/") == {done.id, died.id, waits.id}
    assert listed(ada, "job/", state="dead") == listed(ada, "dead/") == {died.id}
    assert listed(ada, "job/", queue="mail") == {waits.id}
    assert listed(ada, "job/", task="tests.contrib.django.kit.add") == {done.id}
    shown = page(ada, "job/")
    assert "Mission Control" in shown
    assert "nothing can be done" in shown


def test_a_job_tells_its_story(jobs: Windlass, ada: Client) -> None:
    result = kit.fail.enqueue("<b>no</b>")
    jobs.run_until_idle()
    shown = page(ada, f"job/{result.id}/")
    assert "retrying (1 try)" in shown
    assert "Traceback" in shown
    assert "&lt;b&gt;no&lt;/b&gt;" in shown
    assert "<b>no</b>" not in shown
    assert ada.get("/admin/windlass/job/12345/").status_code == 404
    assert ada.get(f"/admin/windlass/job/{2**70}/").status_code == 404


def cells_of(shown: str, queue: str) -> list[str]:
    """The cells of a queue's row, behind its name."""
    row = re.search(rf"queue={queue}\">.*?</tr>", shown, re.DOTALL)
    assert row
    return re.findall("<td>(.*?)</td>", row[0])


def test_queues_are_counted(jobs: Windlass, ada: Client) -> None:
    kit.give_up.enqueue()
    jobs.run_until_idle()
    shown = page(ada, "queue/")
    assert "/admin/windlass/job/?queue=default" in shown
    assert cells_of(shown, "default") == ["0", "0", "0", "0", "1", "", "0", ""]
    kit.add.enqueue(1)
    jobs.queue("default").pause()
    cells = cells_of(page(ada, "queue/"), "default")
    jobs.queue("default").resume()
    assert (cells[:5], cells[6:]) == (["1", "0", "0", "0", "1"], ["0", "paused"])
    assert re.fullmatch(r"[\d.]+ (ms|s)", cells[5])


class Backoffice(WindlassPages, AdminSite):
    """A site of the project's own."""


backoffice = Backoffice(name="backoffice")
urlpatterns = [path("backoffice/", backoffice.urls), path("admin/", admin.site.urls)]


def test_a_site_of_your_own_has_the_pages(jobs: Windlass, ada: Client) -> None:
    died = kit.give_up.enqueue()
    jobs.run_until_idle()
    with override_settings(ROOT_URLCONF=__name__):
        shown = ada.get("/backoffice/windlass/queue/").content.decode()
        assert 'href="/backoffice/windlass/job/?queue=default"' in shown
        assert 'href="/backoffice/"' in shown
        assert 'href="/admin/' not in shown
        asked = {"action": "retry", "_selected_action": [died.id]}
        answer = ada.post("/backoffice/windlass/dead/", asked, follow=True)
    assert "Retry: 1 retried" in answer.content.decode()


def test_o6_jobs_are_retried_and_cancelled(jobs: Windlass, ada: Client) -> None:
    died, waits = kit.give_up.enqueue(), kit.add.enqueue(1)
    jobs.run_until_idle(queues=["default"])
    assert jobs.job(died.id).status() is State.DEAD
    asked = {"action": "retry", "_selected_action": [died.id, waits.id, "x"]}
    answer = ada.post("/admin/windlass/dead/", asked, follow=True)
    assert "Retry: 1 retried, 1 not dead but succeeded" in answer.content.decode()
    assert jobs.job(died.id).status() is State.READY
    answer = ada.post(f"/admin/windlass/job/{died.id}/", {"action": "cancel"}, follow=True)
    assert "Cancel: 1 cancelled" in answer.content.decode()
    assert jobs.job(died.id).status() is State.CANCELLED
    events = jobs._store_handle().call(lambda store: store.events(job=int(died.id)))
    assert [event.worker for event in events if event.kind == "operator"] == ["ada@admin"] * 2
    answer = ada.post("/admin/windlass/job/", {"action": "fly"}, follow=True)
    assert "Choose jobs" in answer.content.decode()


@pytest.mark.parametrize("jobs", ["sqlite"], indirect=True)
def test_m2_what_cannot_be_told_is_done_all_the_same(
    on_sqlite: Windlass, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def report(self: SQLiteStore, source: int, number: int, report: Report) -> float:
        raise StoreUnavailable("gone")

    monkeypatch.setattr(SQLiteStore, "report", report)
    job = int(kit.add.enqueue(1).id)
    assert admin_store.manage(on_sqlite, "cancel", [job], "ada") == {job: "cancelled"}
    assert "an action of ada is not in the timeline: StoreUnavailable" in caplog.text


def test_m5_who_may_look_may_not_act(jobs: Windlass) -> None:
    died = kit.give_up.enqueue()
    jobs.run_until_idle()
    client = login("view_job")
    assert listed(client, "job/") == {died.id}
    assert "_selected_action" not in page(client, "job/")
    asked = {"action": "retry", "_selected_action": [died.id]}
    assert client.post("/admin/windlass/job/", asked).status_code == 403
    assert client.post(f"/admin/windlass/job/{died.id}/", asked).status_code == 403
    assert client.get("/admin/windlass/queue/").status_code == 403
    assert jobs.job(died.id).status() is State.DEAD


@pytest.mark.parametrize("jobs", ["sqlite"], indirect=True)
def test_m5_who_may_change_dead_jobs_touches_no_others(jobs: Windlass) -> None:
    died = kit.give_up.enqueue()
    jobs.run_until_idle()
    waits = kit.add.enqueue(1)
    client = login("view_dead", "change_dead")
    assert client.get(f"/admin/windlass/job/{died.id}/").status_code == 403
    assert client.get(f"/admin/windlass/dead/{waits.id}/").status_code == 404
    client.post(f"/admin/windlass/dead/{waits.id}/", {"action": "cancel"})
    asked = {"action": "cancel", "_selected_action": [waits.id]}
    shown = client.post("/admin/windlass/dead/", asked, follow=True).content.decode()
    assert "Cancel: 1 not dead but ready" in shown
    assert jobs.job(waits.id).status() is State.READY
    answer = client.post(f"/admin/windlass/dead/{died.id}/", {"action": "retry"}, follow=True)
    assert "Retry: 1 retried" in answer.content.decode()
    assert jobs.job(died.id).status() is State.READY


@pytest.mark.parametrize("jobs", ["sqlite"], indirect=True)
@pytest.mark.parametrize("path", ["job/", "dead/", "queue/", "job/1/"])
def test_while_the_store_is_away_a_page_says_so(
    jobs: Windlass, ada: Client, path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WINDLASS_DATABASE_URL", f"sqlite:///{tmp_path}/no/such/folder/jobs.db")
    reread(jobs)
    try:
        assert "the store does not answer" in page(ada, path).lower()
    finally:
        monkeypatch.undo()
        reread(jobs)


@pytest.mark.parametrize("jobs", ["sqlite"], indirect=True)
def test_what_is_no_id_is_passed_over(jobs: Windlass, ada: Client) -> None:
    asked = {"action": "cancel", "_selected_action": ["1" * 5000, "x", "-1"]}
    assert "Choose jobs" in ada.post("/admin/windlass/job/", asked, follow=True).content.decode()
    with pytest.raises(TaskResultDoesNotExist, match="is not the id of a job"):
        kit.add.get_result("1" * 5000)


@pytest.mark.parametrize("jobs", ["sqlite"], indirect=True)
def test_m5_others_are_sent_to_the_login(jobs: Windlass) -> None:
    for client in (Client(), login("view_job", is_staff=False)):
        answer = client.get("/admin/windlass/job/")
        assert answer.status_code == 302
        assert "/admin/login/" in answer.url


@pytest.mark.parametrize("jobs", ["sqlite"], indirect=True)
def test_a_listing_goes_on_where_it_ended(jobs: Windlass, ada: Client) -> None:
    made = {kit.add.enqueue(n).id for n in range(60)}
    first = ada.get("/admin/windlass/job/")
    rest = ada.get(f"/admin/windlass/job/{first.context_data['more']}")
    found = [job.id for answer in (first, rest) for job, _ in answer.context_data["rows"]]
    assert (len(first.context_data["rows"]), set(found), len(found)) == (50, made, 60)
    assert rest.context_data["more"] is None
    assert ada.get("/admin/windlass/job/", {"cursor": "nonsense"}).status_code == 404
    assert ada.get("/admin/windlass/job/", {"state": "failed"}).status_code == 404
    assert ada.get("/admin/windlass/job/", {"backend": "other"}).status_code == 404


@pytest.mark.parametrize("jobs", ["sqlite"], indirect=True)
def test_several_backends_are_a_filter(jobs: Windlass, ada: Client) -> None:
    backend = {"BACKEND": "windlass.contrib.django.WindlassBackend"}
    second = {**backend, "OPTIONS": {"database": "sqlite:///:memory:"}}
    kept = kit.add.enqueue(1)
    with override_settings(TASKS={"default": backend, "second": second}):
        assert listed(ada, "job/") == {kept.id}
        assert listed(ada, "job/", backend="second") == set()


@pytest.mark.parametrize("jobs", ["sqlite"], indirect=True)
def test_the_index_shows_the_pages_and_dumps_pass_them_by(
    jobs: Windlass, ada: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    index = ada.get("/admin/").content.decode()
    assert all(f"/admin/windlass/{name}/" in index for name in ("job", "dead", "queue"))
    call_command("dumpdata", "windlass")
    call_command("dumpdata", "windlass", use_base_manager=True)
    assert capsys.readouterr().out.replace("\n", "") == "[][]"
