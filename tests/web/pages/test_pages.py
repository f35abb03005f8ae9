"""The pages: every one shows hostile text as text, leads nowhere that does not answer, works without a script
and does what its forms say [M3] [M4] [M5]."""

import re

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from tests.web.kit import HEADERS_OF, OPERATE, READ, rigged, visiting
from tests.web.pages.kit import HOSTILE, Filled, Html, crawl, harmless
from windlass import Windlass
from windlass.core.states import State
from windlass.store.records import JobFilter
from windlass.web.pages.search import read_search, write_search

PAGES = [
    "/",
    "/queues",
    "/jobs",
    "/parents",
    "/waits",
    "/tasks",
    "/schedules",
    "/budgets",
    "/workers",
    "/dead",
    "/operations",
    "/events",
]


@pytest.fixture
async def filled(app: Windlass) -> Filled:
    """The app's store, filled."""
    filled = Filled()
    async with rigged(app) as rig:
        await filled.fill(rig)
    return filled


# -- what is shown --------------------------------------------------------------------------------------


async def test_hostile_text_is_shown_as_text(filled: Filled, visitor: httpx.AsyncClient) -> None:
    jobs = [f"/jobs/{id}" for id in filled.jobs.values()]
    places = [*PAGES, *jobs, f"/parents/{filled.parent}", "/queues/mail", "/jobs?q=" + HOSTILE[:60]]
    for path in places:
        answer = await visitor.get(path)
        assert answer.status_code == 200, (path, answer.status_code)
        harmless(answer.text)
    dead = (await visitor.get(f"/jobs/{filled.jobs[State.DEAD]}")).text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in dead
    assert "{{7*7}}" in dead
    assert "\u202e" not in dead
    assert "\\u202e" in dead


async def test_pages_say_what_workers_have_and_jobs_need(any_app: Windlass) -> None:
    """[K14] The page of workers, that of a job, and the overview, where nobody has it."""
    async with rigged(any_app) as rig:
        await rig.worker("default", abilities=frozenset({"disk", "tape"}))
        (id,) = await rig.add("t", needs="gpu")
    async with visiting(any_app) as visitor:
        assert "has disk, tape" in Html((await visitor.get("/workers")).text).text
        for path in ("/", f"/jobs/{id}"):
            assert "no live worker has the ability gpu" in Html((await visitor.get(path)).text).text
        (worker,) = (await visitor.get("/api/workers")).json()["workers"]
        assert worker["abilities"] == ["disk", "tape"]


async def test_every_page_on_every_store(any_app: Windlass) -> None:
    filled = Filled()
    async with rigged(any_app) as rig:
        await filled.fill(rig)
    async with visiting(any_app) as visitor:
        for path in [*PAGES, f"/jobs/{filled.jobs[State.DEAD]}", f"/parents/{filled.parent}", "/queues/mail"]:
            answer = await visitor.get(path)
            assert answer.status_code == 200, (path, answer.text)
            harmless(answer.text)


async def test_a_page_of_a_worker_that_is_gone_says_so(visitor: httpx.AsyncClient) -> None:
    """[M3]"""
    page = Html((await visitor.get("/workers", params={"worker": "nobody"})).text).text
    assert "No such worker is alive" in page


async def test_the_job_page_says_why(filled: Filled, visitor: httpx.AsyncClient) -> None:
    retrying = (await visitor.get(f"/jobs/{filled.jobs[State.RETRYING]}")).text
    assert "retrying (1 try)" in retrying
    tip = re.search(
        r'aria-describedby="(tip-[^"]+)".*?role="tooltip" id="\1">(.*?)</span>', retrying, re.DOTALL
    )
    assert tip is not None
    assert "alert(1)" in tip[2]
    assert "Why it waits" in retrying
    ready = (await visitor.get(f"/jobs/{filled.jobs[State.READY]}")).text
    assert "no worker serves queue idle" in ready
    assert "throttled, resumes in" in (await visitor.get("/queues/mail")).text


async def test_w1_the_job_page_shows_the_steps_and_the_sleep_that_is_on(
    filled: Filled, app: Windlass, visitor: httpx.AsyncClient
) -> None:
    page = (await visitor.get(f"/jobs/{filled.jobs[State.RUNNING]}")).text
    assert "2 steps kept" in page
    assert "asleep until" in page
    harmless(page)
    found = (await visitor.get(f"/api/jobs/{filled.jobs[State.RUNNING]}")).json()
    assert [(step["attempt"], step["result"] is None) for step in found["steps"]] == [(1, False), (1, True)]
    other = (await visitor.get(f"/jobs/{filled.jobs[State.READY]}")).text
    assert "steps kept" not in other


async def test_the_overview_answers_at_one_glance(filled: Filled, visitor: httpx.AsyncClient) -> None:
    page = (await visitor.get("/")).text
    health = page[page.index('id="health"') : page.index('id="totals"')]
    assert 'data-level="ok"' not in health
    assert "queue idle" in health
    assert "since" in health


async def test_a_healthy_store_says_so(app: Windlass, visitor: httpx.AsyncClient) -> None:
    async with rigged(app) as rig:
        await rig.worker("default")
    page = (await visitor.get("/")).text
    assert 'data-level="ok"' in page
    assert "Healthy" in page


async def test_an_empty_store_has_every_page(visitor: httpx.AsyncClient) -> None:
    for path in PAGES:
        answer = await visitor.get(path)
        assert answer.status_code == 200, path
        harmless(answer.text)


async def test_charts_hold_their_numbers(filled: Filled, visitor: httpx.AsyncClient) -> None:
    for span in ("1h", "6h", "24h", "7d", "30d"):
        page = Html((await visitor.get(f"/queues/default?range={span}")).text)
        charts = [each for each in page.all("div") if "data-chart" in each]
        assert len(charts) >= 4
        assert '"name":"p95"' in charts[1]["data-chart"]
        assert all("aria-label" in each for each in charts)


async def test_the_strip_shows_every_part(filled: Filled, visitor: httpx.AsyncClient) -> None:
    page = Html((await visitor.get(f"/parents/{filled.parent}")).text)
    strip = next(each for each in page.all("div") if each.get("class", "").startswith("cells"))
    assert "1 succeeded" in strip["aria-label"]
    assert "1 dead" in strip["aria-label"]
    cells = [each for each in page.all("i") if "title" in each]
    assert [each["class"] for each in cells][:2] == ["cell succeeded", "cell dead"]
    assert len(cells) == 6
    listed = await visitor.get(f"/parents/{filled.parent}?parts=0")
    assert listed.status_code == 200


# -- where links lead -----------------------------------------------------------------------------------


async def test_every_link_answers(filled: Filled, visitor: httpx.AsyncClient) -> None:
    visited = await crawl(visitor, "/")
    assert {"/queues/default", f"/jobs/{filled.jobs[State.DEAD]}", f"/parents/{filled.parent}"} <= visited
    assert len(visited) > 25


async def test_a_prefix_is_kept_everywhere(filled: Filled, app: Windlass) -> None:
    mounted = Starlette(routes=[Mount("/ops/jobs", app.web())])
    transport = httpx.ASGITransport(app=mounted, client=("127.0.0.1", 1))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as visitor:
        page = Html((await visitor.get("/ops/jobs/")).text)
        assert page.all("html")[0]["data-root"] == "/ops/jobs"
        for attributes in page.all("script", "link"):
            answer = await visitor.get(attributes.get("src") or attributes["href"])
            assert answer.status_code == 200
            assert "immutable" in answer.headers["cache-control"]
        visited = await crawl(visitor, "/ops/jobs/", most=25)
        assert all(path.startswith("/ops/jobs") for path in visited)
        paused = await visitor.post("/ops/jobs/queues/default", data={"do": "pause"})
        assert paused.headers["location"] == "/ops/jobs/queues/default?did=paused"


async def test_what_is_not_there(visitor: httpx.AsyncClient) -> None:
    lost = [
        "/nothing",
        "/queues/nobody",
        "/jobs/99",
        "/jobs/abc",
        "/parents/7",
        "/bulk/none",
        "/jobs/" + "9" * 40,
    ]
    for path in lost:
        answer = await visitor.get(path)
        assert answer.status_code == 404, path
        assert ">Overview</a>" in answer.text
        harmless(answer.text)
    assert (await visitor.get("/jobs/%3Cscript%3Ealert(1)%3C%2Fscript%3E")).status_code == 404


# -- the search -----------------------------------------------------------------------------------------


def test_a_search_is_read_and_written() -> None:
    where = read_search('task:mail.send STATE:dead tag:"big spender" free text "and more"')
    assert (where.task, where.state, where.tag) == ("mail.send", State.DEAD, "big spender")
    assert where.text == "free text and more"
    assert read_search(write_search(where)) == where
    assert write_search(read_search(r'tag:"a \"b\" \\"')) == r'tag:"a \"b\" \\"'


@pytest.mark.parametrize(
    "text",
    ["state:dead", "a  b", '"quoted"', "tag:x y", "back\\slash", " lead", "7", 'x" state:dead "', "a\nb"],
)
@pytest.mark.parametrize("name", ["text", "tag"])
def test_a_search_that_is_written_reads_as_the_same(name: str, text: str) -> None:
    for state in (None, State.READY):
        where = JobFilter(state=state, **{name: text})
        assert read_search(write_search(where)) == where


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ('"customer": "cust-0042"', '"customer": "cust-0042"'),
        ('tag:vip "a": ["b c", {"d": "task:x"}]', '"a": ["b c", {"d": "task:x"}]'),
        ('"cust-0042"', "cust-0042"),
        ('"a b" "c"', "a b c"),
        (r'"\"a\": 1"', '"a": 1'),
    ],
)
def test_quotes_of_json_are_looked_for(words: str, text: str) -> None:
    assert read_search(words).text == text


async def test_what_the_page_of_a_job_shows_is_found(any_app: Windlass) -> None:
    async with any_app, visiting(any_app) as visitor:
        body = {"task": "a", "kwargs": {"customer": "cust-0042", "items": [7, 8], "note": "see task:b"}}
        id = (await visitor.post("/api/jobs", json=body)).json()["id"]
        shown = (await visitor.get(f"/jobs/{id}")).text
        for words in (
            '"customer": "cust-0042"',
            '"note": "see task:b"',
            '"customer": "cust-0042", "items": [7, 8]',
        ):
            assert words in Html(shown).text.replace("[ 7, 8 ]", "[7, 8]")
            found = Html((await visitor.get("/jobs", params={"q": words})).text)
            assert f"/jobs/{id}" in found.links(), words
        for text, count in (('"customer": "cust-0042"', 1), ('"customer": "cust-004"', 0)):
            assert len((await visitor.get("/api/jobs", params={"text": text})).json()["jobs"]) == count


async def test_the_link_of_a_tag_finds_that_tag(app: Windlass, visitor: httpx.AsyncClient) -> None:
    tag = 'x" state:dead "'
    id = (await visitor.post("/api/jobs", json={"task": "a", "tags": [tag]})).json()["id"]
    for path in ("/jobs", f"/jobs/{id}"):
        page = Html((await visitor.get(path)).text)
        (link,) = [each["href"] for each in page.all("a") if each.get("class") == "tag"]
        found = Html((await visitor.get(link)).text)
        assert f"/jobs/{id}" in found.links()


async def test_a_search_finds_and_says_how_far_it_has_looked(
    filled: Filled, visitor: httpx.AsyncClient
) -> None:
    found = Html((await visitor.get("/jobs", params={"q": "state:dead tag:plain"})).text)
    assert f"/jobs/{filled.jobs[State.DEAD]}" in found.links()
    assert f"/jobs/{filled.jobs[State.RETRYING]}" not in found.links()
    assert "Searched back to" in found.text
    wrong = await visitor.get("/jobs", params={"q": "state:bogus"})
    assert wrong.status_code == 400
    assert "bogus" in wrong.text
    assert (await visitor.get("/jobs", params={"q": "x" * 1100})).status_code == 400
    direct = await visitor.get("/jobs", params={"q": str(filled.jobs[State.READY])})
    assert direct.headers["location"] == f"/jobs/{filled.jobs[State.READY]}"


async def test_a_long_listing_goes_on(app: Windlass, visitor: httpx.AsyncClient) -> None:
    async with rigged(app) as rig:
        ids = await rig.add(*["t"] * 70)
    first = Html((await visitor.get("/jobs")).text)
    onward = next(each["href"] for each in first.all("a") if each.get("rel") == "next")
    second = Html((await visitor.get(onward)).text)
    seen = {link for link in [*first.links(), *second.links()] if re.fullmatch(r"/jobs/\d+", link)}
    assert seen == {f"/jobs/{id}" for id in ids}


# -- what forms do --------------------------------------------------------------------------------------


async def test_a_queue_is_paused_resumed_and_set(
    filled: Filled, app: Windlass, visitor: httpx.AsyncClient
) -> None:
    paused = await visitor.post("/queues/mail", data={"do": "pause"}, follow_redirects=True)
    assert "Paused. Running jobs finish." in paused.text
    await visitor.post("/queues/mail", data={"do": "resume"})
    await visitor.post("/queues/mail", data={"do": "warm"})
    given = {"max_workers": "8", "concurrency": "", "retention": "2h", "safety_bound": "1h"}
    done = await visitor.post("/queues/mail", data={"do": "set", **given})
    assert done.headers["location"].endswith("did=changed")
    async with rigged(app) as rig:
        queue = next(each for each in await rig.store.queues() if each.name == "mail")
    assert (queue.paused, queue.cooling, queue.max_workers, queue.retention) == (False, 0.0, 8, 7200.0)
    for text, bound in (("5m", 300.0), ("", 3600.0)):  # empty: as it comes
        await visitor.post("/queues/mail", data={"do": "set", "safety_bound": text})
        async with rigged(app) as rig:
            queue = next(each for each in await rig.store.queues() if each.name == "mail")
        assert queue.safety_bound == bound
    wrong = await visitor.post("/queues/mail", data={"do": "set", "max_workers": "-1"})
    assert wrong.status_code == 400
    wrong = await visitor.post("/queues/mail", data={"do": "set", "retention": "8d"})
    assert (wrong.status_code, "cannot be above that of the store, 604800 s" in wrong.text) == (400, True)
    assert (await visitor.post("/queues/mail", data={"do": "explode"})).status_code == 400


async def test_a_job_is_retried_replayed_cancelled_and_deleted(
    filled: Filled, app: Windlass, visitor: httpx.AsyncClient
) -> None:
    dead, ready, running = (filled.jobs[state] for state in (State.DEAD, State.READY, State.RUNNING))
    replayed = await visitor.post(f"/jobs/{dead}", data={"do": "replay"}, follow_redirects=True)
    assert "copy of the one you replayed" in replayed.text
    again = await visitor.post(f"/jobs/{dead}", data={"do": "retry"}, follow_redirects=True)
    assert "1 job enqueued again" in again.text
    assert (await visitor.post(f"/jobs/{running}", data={"do": "cancel"})).status_code == 303
    gone = await visitor.post(f"/jobs/{ready}", data={"do": "delete"})
    assert gone.headers["location"] == "/jobs?did=deleted&n=1"
    async with rigged(app) as rig:
        assert await rig.state(dead) is State.READY
        assert (await rig.look(running)).cancel_requested
        assert await rig.state(ready) is None
    assert (await visitor.post("/jobs/99", data={"do": "retry"})).status_code == 404


async def test_ticked_jobs_are_asked_about_before_they_go(
    filled: Filled, app: Windlass, visitor: httpx.AsyncClient
) -> None:
    ids = [str(filled.jobs[State.READY]), str(filled.jobs[State.SCHEDULED])]
    asked = await visitor.post("/jobs/act", data={"do": "delete", "id": ids, "back": "/dead?queue=mail"})
    assert asked.status_code == 200
    assert "Delete 2 jobs?" in asked.text
    page = Html(asked.text)
    sent = [(each["name"], each["value"]) for each in page.all("input") if each.get("type") == "hidden"]
    form = {name: [value for key, value in sent if key == name] for name, _ in sent}
    done = await visitor.post("/jobs/act", data=form)
    assert done.headers["location"] == "/dead?queue=mail&did=deleted&n=2"
    async with rigged(app) as rig:
        assert [await rig.state(int(id)) for id in ids] == [None, None]
    none = await visitor.post("/jobs/act", data={"do": "retry", "back": "//evil.example/?q=x"})
    assert none.headers["location"] == "/jobs?q=x&did=picked"


@pytest.mark.parametrize(
    ("do", "did", "changes", "others"),
    [
        ("retry", "retried", State.DEAD, (State.READY, State.RUNNING)),
        ("cancel", "cancelled", State.SCHEDULED, (State.SUCCEEDED, State.CANCELLED)),
        ("delete", "deleted", State.SCHEDULED, ()),
    ],
)
async def test_only_those_that_changed_are_counted(
    filled: Filled, visitor: httpx.AsyncClient, do: str, did: str, changes: State, others: tuple[State, ...]
) -> None:
    ids = [str(filled.jobs[state]) for state in (changes, *others)]
    form = {"do": do, "sure": "yes", "back": "/dead?task=t"}
    done = await visitor.post("/jobs/act", data={**form, "id": [*ids, "99"]})
    assert done.headers["location"] == f"/dead?task=t&did={did}&n=1"
    again = await visitor.post("/jobs/act", data={**form, "id": ids})
    assert again.headers["location"] == "/dead?task=t&did=none"


async def test_many_jobs_with_preview_and_progress(
    app: Windlass, visitor: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("windlass.operations.bulk.SETTLE_TIME", 60.0)
    async with rigged(app) as rig:
        worker = await rig.worker("default")
        for _ in range(3):
            await rig.bring(State.DEAD, worker)
        preview = await visitor.get("/bulk/new", params={"verb": "retry", "q": "state:dead"})
        assert "Retry 3 jobs?" in preview.text
        begun = await visitor.post("/bulk/new", data={"verb": "retry", "q": "state:dead"})
        place = begun.headers["location"]
        assert place.startswith("/bulk/")
        page = Html((await visitor.get(place)).text)
        assert "Done3 of 3 jobs" in page.text
        assert (await rig.depth()).dead == 0
    assert (await visitor.get("/bulk/new?verb=explode")).status_code == 400


@pytest.mark.parametrize("q", ["", '""', "   "])
async def test_every_job_must_be_meant(app: Windlass, visitor: httpx.AsyncClient, q: str) -> None:
    await app.aenqueue("a")
    refused = await visitor.post("/bulk/new", data={"verb": "delete", "q": q})
    assert refused.status_code == 400
    assert "every job" in refused.text
    assert len((await visitor.get("/api/jobs")).json()["jobs"]) == 1
    asked = Html((await visitor.get("/bulk/new", params={"verb": "delete", "q": q})).text)
    (sure,) = [each for each in asked.all("input") if each.get("name") == "everything"]
    assert (sure["type"], "required" in sure, "checked" in sure) == ("checkbox", True, False)
    meant = await visitor.post("/bulk/new", data={"verb": "delete", "q": q, "everything": sure["value"]})
    assert meant.status_code == 303
    some = Html((await visitor.get("/bulk/new", params={"verb": "delete", "q": "task:a"})).text)
    assert not [each for each in some.all("input") if each.get("name") == "everything"]


async def test_a_parent_is_managed(filled: Filled, app: Windlass, visitor: httpx.AsyncClient) -> None:
    here = f"/parents/{filled.parent}"
    assert (await visitor.post(here, data={"do": "parallel", "parallel": "2"})).status_code == 303
    assert (await visitor.post(here, data={"do": "parallel", "parallel": "0"})).status_code == 400
    again = await visitor.post(here, data={"do": "redrive"}, follow_redirects=True)
    assert "1 part enqueued again" in again.text
    assert (await visitor.post(here, data={"do": "cancel"})).headers["location"].endswith("did=cancelled&n=1")
    async with rigged(app) as rig:
        parent = await rig.parent_record(filled.parent)
    assert (parent.parallel, parent.cancel_requested) == (2, True)


async def test_schedules_and_budgets_are_managed(
    filled: Filled, app: Windlass, visitor: httpx.AsyncClient
) -> None:
    for do in ("pause", "resume"):
        assert (await visitor.post("/schedules/nightly", data={"do": do})).status_code == 303
    fired = await visitor.post("/schedules/nightly", data={"do": "run"})
    assert re.fullmatch(r"/jobs/\d+\?did=fired", fired.headers["location"])
    assert (await visitor.post("/schedules/broken", data={"do": "remove"})).status_code == 303
    assert (await visitor.post("/schedules/nobody", data={"do": "run"})).status_code == 404
    await visitor.post("/budgets/upstream", data={"do": "set", "rate": "600/m", "burst": "20"})
    await visitor.post("/budgets/upstream", data={"do": "drain", "pause": "30"})
    assert (await visitor.post("/budgets/upstream", data={"do": "set", "rate": "fast"})).status_code == 400
    async with rigged(app) as rig:
        (budget,) = await rig.store.budgets()
        assert [each.name for each in await rig.store.schedules()] == ["nightly"]
    assert (budget.rate, budget.burst) == (10.0, 20)
    assert budget.paused_for > 0


async def test_k4_a_schedule_is_added_changed_and_reverted_in_forms(
    filled: Filled, visitor: httpx.AsyncClient
) -> None:
    """[K4] The page says where each comes from, and what the code says where it was changed."""
    given = {"name": "often", "task": "t", "cron": "@every 10s", "kwargs": '{"n": 1}', "overlap": "queue"}
    added = await visitor.post("/schedules", data=given, follow_redirects=True)
    assert "Added. It fires from its next time on" in added.text
    assert "made at run time" in added.text
    assert (await visitor.post("/schedules", data=given)).status_code == 409
    for wrong in ({"cron": "61 * * * *"}, {"name": "Not A Name"}, {"kwargs": "[1]"}, {"tz": "Mars/Crater"}):
        refused = await visitor.post("/schedules", data=given | {"name": "other"} | wrong)
        assert refused.status_code == 400
    change = {"do": "set", "cron": "0 4 * * *", "tz": "UTC", "grace": "60"}
    changed = await visitor.post("/schedules/nightly", data=change, follow_redirects=True)
    assert "changed at run time; the code says cron 0 3 * * *" in Html(changed.text).text
    assert "Back to the code" in changed.text
    same = await visitor.post("/schedules/nightly", data=change)
    assert same.headers["location"].endswith("did=unchanged")
    back = await visitor.post("/schedules/nightly", data={"do": "revert"}, follow_redirects=True)
    assert "It is as the code declares it again." in back.text
    assert "changed at run time" not in back.text
    assert (await visitor.post("/schedules/often", data={"do": "revert"})).status_code == 409


async def test_a_link_cannot_make_a_page_say_things(visitor: httpx.AsyncClient) -> None:
    for query in ("did=You+were+hacked", "did=deleted&n=<b>", "did=deleted&n=" + "9" * 30):
        assert 'role="status"' not in (await visitor.get(f"/jobs?{query}")).text


async def test_forms_are_bounded(visitor: httpx.AsyncClient) -> None:
    long = await visitor.post("/jobs/act", data={"do": "retry", "id": ["1"] * 40_000})
    assert long.status_code == 413
    many = await visitor.post("/jobs/act", data={"do": "retry", "id": ["1"] * 2_000})
    assert many.status_code == 400
    other = await visitor.post("/jobs/act", json={"do": "retry"})
    assert other.status_code == 415


# -- who sees what --------------------------------------------------------------------------------------


async def test_who_may_only_look_sees_no_buttons(filled: Filled, app: Windlass) -> None:
    async with visiting(app, read=[READ], operate=[OPERATE], headers=HEADERS_OF["read"]) as visitor:
        for path in [*PAGES, f"/jobs/{filled.jobs[State.DEAD]}", f"/parents/{filled.parent}", "/queues/mail"]:
            page = Html((await visitor.get(path)).text)
            names = {each.get("name") for each in page.all("button", "input")} - {None}
            assert not names & {"do", "id"}, path
        refused = await visitor.post("/queues/mail", data={"do": "pause"})
        assert refused.status_code == 403
        assert "Not allowed" in refused.text
        harmless(refused.text)


async def test_a_store_that_is_away_is_told_in_the_same_clothes() -> None:
    app = Windlass("postgresql://nobody@127.0.0.1:1/nowhere")
    async with visiting(app) as visitor:
        answer = await visitor.get("/queues")
    await app.aclose()
    assert answer.status_code == 503
    assert answer.headers["retry-after"]
    assert "cannot be reached" in answer.text
    assert "nobody@" not in answer.text
    harmless(answer.text)
