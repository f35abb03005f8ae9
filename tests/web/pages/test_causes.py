"""Jobs by what they failed with, on the pages and over HTTP: counted, found, and acted on by task and error
[M3] [O6]."""

import re
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from tests.conformance.kit import Rig
from tests.web.api.test_bulk import ended
from tests.web.kit import rigged, visiting
from tests.web.pages.kit import HOSTILE, Html, harmless
from windlass import Windlass
from windlass.core.states import Kind, State
from windlass.store.records import Failure, JobFilter
from windlass.web.http.problems import Invalid
from windlass.web.pages.search import read_search, write_search


async def bury(rig: Rig, count: int, task: str, error: str | None, queue: str = "default") -> list[int]:
    """Dead jobs that died of this; None: without a failure."""
    worker = await rig.worker()
    ids = await rig.add(*[task] * count, queue=queue)
    kept = None if error is None else Failure(error, f"{error} of {task}", "Traceback ...")
    await rig.finish(worker, await rig.claim(worker, queue), Kind.DEAD, error=kept)
    return ids


def groups(page: str) -> Html:
    """The table of what jobs died of."""
    found = re.search(r'<section class="card" aria-labelledby="groups-title">.*?</section>', page, re.DOTALL)
    assert found
    return Html(found[0])


async def test_causes_over_http(any_app: Windlass) -> None:
    async with any_app, rigged(any_app) as rig, visiting(any_app) as visitor:
        await bury(rig, 3, "mail", "RuntimeError")
        await bury(rig, 1, "mail", "KeyError", queue="slow")
        await bury(rig, 2, "load", None)
        answer = (await visitor.get("/api/dead/causes")).json()
        assert [(each["jobs"], each["task"], each["error"]) for each in answer["groups"]] == [
            (3, "mail", "RuntimeError"),
            (2, "load", ""),
            (1, "mail", "KeyError"),
        ]
        assert (answer["looked"], answer["more"]) == (6, False)
        assert answer["groups"][0]["message"] == "RuntimeError of mail"
        assert re.fullmatch(r"20\d\d-.*Z", answer["groups"][0]["last_at"])
        slow = (await visitor.get("/api/dead/causes", params={"queue": "slow"})).json()
        assert [each["error"] for each in slow["groups"]] == ["KeyError"]
        load = (await visitor.get("/api/dead/causes", params={"task": "load"})).json()
        assert ([each["task"] for each in load["groups"]], load["looked"]) == (["load"], 6)


async def test_jobs_are_listed_and_acted_on_by_error(any_app: Windlass) -> None:
    async with any_app, rigged(any_app) as rig, visiting(any_app) as visitor:
        wanted = await bury(rig, 2, "mail", "RuntimeError")
        await bury(rig, 1, "mail", "KeyError")
        bare = await bury(rig, 1, "mail", None)

        async def ids(path: str, **query: str) -> set[int]:
            return {int(job["id"]) for job in (await visitor.get(path, params=query)).json()["jobs"]}

        assert await ids("/api/jobs", error="RuntimeError") == set(wanted)
        assert await ids("/api/dead", error="RuntimeError") == set(wanted)
        assert await ids("/api/jobs", error="") == set(bare)
        assert await ids("/api/jobs", error="Other") == set()
        where = {"state": "dead", "error": "RuntimeError"}
        assert (await visitor.post("/api/bulk/preview", json=where)).json() == {"jobs": 2, "more": False}
        begun = await visitor.post("/api/bulk", json={"verb": "retry", "where": where})
        answer = await ended(visitor, begun.json()["id"])
        assert (answer["answers"], answer["where"]) == ({"retried": 2}, where)
        assert {job.id for job in await rig.listing(state=State.READY)} == set(wanted)


async def test_a_group_is_acted_on_by_task_and_error(app: Windlass, visitor: httpx.AsyncClient) -> None:
    """The whole way: the page's button, the preview, the operation; others of that task stay dead."""
    async with rigged(app) as rig:
        wanted = await bury(rig, 2, "mail", "RuntimeError")
        others = [*await bury(rig, 1, "mail", "KeyError"), *await bury(rig, 1, "load", "RuntimeError")]
        page = Html((await visitor.get("/dead")).text)
        label = "Retry all dead jobs of mail that died with RuntimeError"
        (link,) = [each["href"] for each in page.all("a") if each.get("aria-label") == label]
        preview = Html((await visitor.get(link)).text)
        assert "2 jobs" in preview.text
        given = {each["name"]: each["value"] for each in preview.all("input") if each.get("type") == "hidden"}
        assert read_search(given["q"]) == JobFilter(task="mail", state=State.DEAD, error="RuntimeError")
        begun = await visitor.post("/bulk/new", data=given)
        await ended(visitor, begun.headers["location"].rpartition("/")[2])
        assert {job.id for job in await rig.listing(state=State.DEAD)} == set(others)
        assert {job.id for job in await rig.listing(state=State.READY)} == set(wanted)


async def test_the_page_counts_all_and_not_what_it_lists(app: Windlass, visitor: httpx.AsyncClient) -> None:
    async with rigged(app) as rig:
        await bury(rig, 70, "mail", "RuntimeError")
        await bury(rig, 2, "load", None)
    table = groups((await visitor.get("/dead")).text)
    assert "of all 72" in table.text
    assert "70mail" in table.text
    assert "no error kept" in table.text
    for link, jobs in zip(table.links()[::3], (50, 2), strict=True):
        shown = Html((await visitor.get(link)).text)
        assert len({each for each in shown.links() if re.fullmatch(r"/jobs/\d+", each)}) == jobs


async def test_a_cause_on_the_page_of_a_queue_is_about_that_queue(
    app: Windlass, visitor: httpx.AsyncClient
) -> None:
    """Its links acted on the jobs of every queue that died of the same."""
    async with rigged(app) as rig:
        await bury(rig, 3, "mail", "RuntimeError")
        await bury(rig, 1, "mail", "RuntimeError", queue="slow")
    table = groups((await visitor.get("/dead?queue=slow")).text)
    assert "of all 1 of queue slow" in table.text
    searches = [parse_qs(urlsplit(link).query)["q"][0] for link in table.links()]
    assert {read_search(each).queue for each in searches} == {"slow"}
    assert len(searches) == 3


@pytest.mark.parametrize("named", [{"queue": "slow"}, {"task": "load"}])
async def test_the_page_of_a_queue_or_a_task_lists_its_jobs_and_acts_on_them(
    app: Windlass, visitor: httpx.AsyncClient, named: dict[str, str]
) -> None:
    async with rigged(app) as rig:
        await bury(rig, 2, "mail", "RuntimeError")
        (wanted,) = await bury(rig, 1, "load", "RuntimeError", queue="slow")
    page = Html((await visitor.get("/dead", params=named)).text)
    assert {link for link in page.links() if re.fullmatch(r"/jobs/\d+", link)} == {f"/jobs/{wanted}"}
    asked = [parse_qs(urlsplit(link).query) for link in page.links() if link.startswith("/bulk/new?")]
    both = [{"verb": each["verb"][0], "where": read_search(each["q"][0])} for each in asked[:2]]
    where = JobFilter(state=State.DEAD, **named)
    assert both == [{"verb": "retry", "where": where}, {"verb": "delete", "where": where}]


async def test_the_page_says_that_older_ones_were_not_counted(
    app: Windlass, visitor: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("windlass.operations.jobs.MAX_DEAD", 3)
    async with rigged(app) as rig:
        await bury(rig, 5, "mail", "RuntimeError")
    page = Html((await visitor.get("/dead")).text)
    assert "of the newest 3" in page.text


async def test_a_hostile_error_is_text_and_can_be_acted_on(app: Windlass, visitor: httpx.AsyncClient) -> None:
    async with rigged(app) as rig:
        (id,) = await bury(rig, 1, "mail", HOSTILE.replace("\x1b", ""))
    answer = await visitor.get("/dead")
    harmless(answer.text)
    links = groups(answer.text).links()
    assert len(links) == 3
    for link in links:
        shown = await visitor.get(link)
        harmless(shown.text)
        assert f"/jobs/{id}" in shown.text or "1 job?" in shown.text


# -- the search -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", ["RuntimeError", "httpx.ConnectTimeout", "a b", 'x" tag:y', ""])
def test_an_error_is_written_and_read(error: str) -> None:
    where = JobFilter(error=error, task="mail")
    assert read_search(write_search(where)) == where
    assert read_search("ERROR:RuntimeError boom") == JobFilter(error="RuntimeError", text="boom")


@pytest.mark.parametrize("words", ["foo:bar", "Errors:RuntimeError", 'foo:"bar baz"', "state:dead jobs:x"])
def test_a_filter_that_is_not_there_is_refused(words: str) -> None:
    with pytest.raises(Invalid, match=r"task:, state:, queue:, tag:, error:.*quotes"):
        read_search(words)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ('"foo:bar"', "foo:bar"),
        ("https://example.org/x", "https://example.org/x"),
        ("12:30", "12:30"),
        ("db.example.org:5432", "db.example.org:5432"),
        ("ValueError: boom", "ValueError: boom"),
        ('{"user":7}', '{"user":7}'),
    ],
)
def test_text_with_a_colon_stays_text(words: str, text: str) -> None:
    assert read_search(words) == JobFilter(text=text)


async def test_o9_the_job_page_says_that_its_error_is_not_retried(any_app: Windlass) -> None:
    async with any_app, rigged(any_app) as rig, visiting(any_app) as visitor:
        worker = await rig.worker()
        (id,) = await rig.add("mail")
        reason, error = "not retried: ValueError is in never", Failure("ValueError", "no address")
        await rig.finish(worker, await rig.run(worker, id), Kind.DEAD, error=error, reason=reason)
        page = Html((await visitor.get(f"/jobs/{id}")).text).text
        assert "not retried: ValueError is in never; ValueError: no address" in " ".join(page.split())
        assert (await visitor.get(f"/api/jobs/{id}")).json()["reason"] == reason
