"""Encrypted payloads: nothing to read in the store, keys that come and go, and errors that name the key."""

import asyncio
import base64
import json
import time
from pathlib import Path

import pytest

from tests.cli.kit import Desk
from tests.stored import stored
from tests.web.kit import visiting
from windlass import Context, Retry, State, Windlass
from windlass.codec import Purpose, seal, unseal
from windlass.contrib.encryption import Encrypted, _Key
from windlass.errors import CodecError, ConfigurationError, MissingKey, PayloadTooLarge
from windlass.store.sqlite import SQLiteStore
from windlass.testing import Clock

ADA = "ada@example.org"
HERE = Purpose("payload", "mail.send")
OLD, NEW = (base64.b64encode(bytes([number]) * 32).decode() for number in (7, 9))
"""Always the same: they stand in the names of tests, which every test process must know alike."""


def make(app: Windlass, attempts: int = 1) -> Windlass:
    @app.task(name="mail.send", retry=Retry(attempts, base="1s"))
    def send(to: str) -> str:
        return f"sent to {to}"

    return app


@pytest.mark.parametrize(
    ("key", "bound_to", "sealed"),
    [
        (1, b"", "ce546ef63c9cc60765923609b33a9a1974e96e52daf2fcf7075e2271"),
        (3, b"c2sp.org/XAES-256-GCM", "986ec1832593df5443a179437fd083bf3fdb41abd740a21f71eb769d"),
    ],
)
def test_it_is_the_published_algorithm(key: int, bound_to: bytes, sealed: str) -> None:
    """The test vectors of the specification."""
    nonce = b"ABCDEFGHIJKLMNOPQRSTUVWX"
    cipher = _Key(bytes([key]) * 32).cipher(nonce)
    assert cipher.encrypt(nonce[12:], b"XAES-256-GCM", bound_to).hex() == sealed


def test_jobs_run_and_nothing_can_be_read_in_the_store(url: str) -> None:
    with make(Windlass(url, codec=Encrypted({"2026": NEW}))) as app:
        job = app.enqueue("mail.send", ADA)
        assert app.run_until_idle().succeeded == 1
        record = stored(job)
        for text in (record.payload, record.result or ""):
            inside = json.loads(text)["$windlass"]
            assert inside.keys() == {"codec", "key", "data"}
            assert (inside["codec"], inside["key"]) == ("encrypted", "2026")
            assert ADA.encode() not in base64.b64decode(inside["data"])
        assert job.result() == f"sent to {ADA}"


def test_w1_w2_steps_and_signals_are_sealed_and_read_again(url: str) -> None:
    """By the app that has the key: on later attempts, too."""
    app = Windlass(url, codec=Encrypted({"2026": NEW}))
    runs: list[str] = []

    def find() -> str:
        runs.append("found")
        return ADA

    @app.task(name="mail.ask", retry=Retry(3, base=0))
    def ask(ctx: Context) -> str:
        to = ctx.blocking.step("find", find)
        if ctx.attempt == 1:
            raise OSError("after the step")
        answer = ctx.blocking.wait("approved", type=dict[str, str])
        if ctx.attempt == 2:
            raise OSError("after the wait")
        return f"{to} by {answer['by']}"

    with app:
        job = ask.enqueue()
        app.run_until_idle(wait=1)
        store = job._store_handle()
        assert job.status() == "scheduled"
        assert app.signal(job.id, "approved", {"by": ADA}) == "delivered"  # by its id: the task is looked up
        app.run_until_idle(wait=1)
        assert job.result() == f"{ADA} by {ADA}"
        assert runs == ["found"]
        steps = store.call(lambda store: store.steps(job.id))
        assert [step.name for step in steps] == ["find", "wait:approved"]
        for step in steps:
            inside = json.loads(step.result)["$windlass"]
            assert inside["key"] == "2026"
            assert ADA.encode() not in base64.b64decode(inside["data"])


def test_w2_a_signal_from_sql_is_read_as_it_is(url: str) -> None:
    """What was not sealed needs no key, unless the codec requires one."""
    with Windlass(url, codec=Encrypted({"2026": NEW})) as app:

        @app.task(name="mail.ask")
        def ask(ctx: Context) -> int:
            return int(ctx.blocking.wait("approved", type=int))

        job = ask.enqueue()
        app.run_until_idle()
        job._store_handle().call(lambda store: store.signal(job.id, "approved", "7"))
        app.run_until_idle()
        assert job.result() == 7


def test_e4_the_limit_counts_for_what_is_stored(url: str) -> None:
    """Every store refuses the same."""
    with make(Windlass(url, codec=Encrypted({"2026": NEW}))) as app:
        assert app.enqueue("mail.send", "x" * 780_000).receipt == "enqueued"
        with pytest.raises(
            PayloadTooLarge, match=r"mail.send: the payload takes 1,\d+,\d+ bytes after the app's"
        ):
            app.enqueue("mail.send", "x" * 900_000)


def test_the_same_value_never_looks_the_same() -> None:
    codec = Encrypted({"2026": NEW})
    assert seal(codec, "{}", HERE) != seal(codec, "{}", HERE)


def test_the_first_key_writes_and_all_read() -> None:
    before, after = Encrypted({"old": OLD}), Encrypted({"new": NEW, "old": OLD})
    assert unseal(after, seal(before, '{"a":1}', HERE), HERE) == '{"a":1}'
    written = seal(after, '{"a":1}', HERE)
    assert json.loads(written)["$windlass"]["key"] == "new"
    with pytest.raises(
        MissingKey, match=r"the key 'new', which this app does not have \(it has old\)"
    ) as missing:
        unseal(before, written, HERE)
    assert missing.value.key == "new"


@pytest.mark.parametrize("elsewhere", [Purpose("payload", "mail.delete"), Purpose("result", "mail.send")])
def test_a_value_belongs_to_its_task_and_its_purpose(elsewhere: Purpose) -> None:
    codec = Encrypted({"2026": NEW})
    with pytest.raises(CodecError, match="cannot be decrypted with the key '2026'"):
        unseal(codec, seal(codec, "{}", HERE), elsewhere)


@pytest.mark.parametrize("data", ["", "AAAA", "!", 5, None, base64.b64encode(bytes(range(60))).decode()])
def test_what_was_changed_is_refused(data: object) -> None:
    text = json.dumps({"$windlass": {"codec": "encrypted", "key": "2026", "data": data}})
    with pytest.raises(CodecError, match="what is stored was changed"):
        unseal(Encrypted({"2026": NEW}), text, HERE)


def test_a_job_whose_key_is_missing_waits_and_is_done_when_the_key_is_there() -> None:
    """It is neither lost nor tried again and again at once."""
    store = SQLiteStore(":memory:", clock=(clock := Clock()))
    late = make(Windlass(store=store, codec=Encrypted({"old": OLD})), attempts=2)
    job = make(Windlass(store=store, codec=Encrypted({"new": NEW})), attempts=2).enqueue("mail.send", ADA)
    assert late.run_until_idle().retried == 1
    record = stored(job)
    assert record.state == State.RETRYING
    assert record.run_at is not None
    assert record.run_at - clock() >= 60
    assert record.errors[-1].type == "windlass.errors.MissingKey"
    assert "'new'" in record.errors[-1].message
    clock.advance("5m")
    ready = make(Windlass(store=store, codec=Encrypted({"old": OLD, "new": NEW})), attempts=2)
    assert ready.run_until_idle().succeeded == 1
    assert ready.job(job.id).result() == f"sent to {ADA}"


@pytest.mark.parametrize("codec", [None, Encrypted({"k": OLD}), Encrypted({"k": NEW}, require=True)])
def test_a_job_that_cannot_be_opened_here_waits_as_long(codec: Encrypted | None) -> None:
    """Without the codec, with another key of the same name, or in plain where that is refused."""
    store = SQLiteStore(":memory:", clock=(clock := Clock()))
    writer = None if codec is not None and codec.require else Encrypted({"k": NEW})
    job = make(Windlass(store=store, codec=writer), attempts=2).enqueue("mail.send", ADA)
    assert make(Windlass(store=store, codec=codec), attempts=2).run_until_idle().retried == 1
    record = stored(job)
    assert record.errors[-1].type == "windlass.errors.CodecError"
    assert record.run_at is not None
    assert record.run_at - clock() >= 60


def test_with_another_key_of_the_same_name_it_ends_dead_with_its_payload(url: str) -> None:
    with (
        make(Windlass(url, codec=Encrypted({"k": NEW}))) as writer,
        make(Windlass(url, codec=Encrypted({"k": OLD}))) as reader,
    ):
        if url == "sqlite:///:memory:":
            writer._given = reader._given = SQLiteStore(":memory:")
        job = writer.enqueue("mail.send", ADA)
        assert reader.run_until_idle().dead == 1
        (error,) = job.record().errors
        assert "cannot be decrypted with the key 'k'" in error.message
        assert ADA not in error.message + (error.traceback or "")
        assert job.retry() == "retried"
        assert writer.run_until_idle().succeeded == 1


def test_keys_come_as_bytes_base64_or_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = base64.b64decode(NEW)
    urlsafe = base64.urlsafe_b64encode(raw).decode().rstrip("=")
    written = seal(Encrypted({"a": raw}), "[1]", HERE)
    assert unseal(Encrypted({"a": NEW}), written, HERE) == "[1]"
    assert unseal(Encrypted({"a": urlsafe}), written, HERE) == "[1]"
    monkeypatch.setenv("SHOP_KEYS", f"b:{OLD}, a:{NEW}")
    codec = Encrypted.from_env("SHOP_KEYS", require=True)
    assert codec.require
    assert unseal(codec, written, HERE) == "[1]"
    assert json.loads(seal(codec, "[1]", HERE))["$windlass"]["key"] == "b"
    assert NEW not in repr(codec)


@pytest.mark.parametrize(
    "given", ["", "a", "a:", NEW, f"a:{OLD},a:{NEW}", f"a:{OLD},", f"a b:{OLD}", "a:short"]
)
def test_keys_that_make_no_sense_are_refused_and_not_shown(
    given: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_KEYS", given)
    with pytest.raises(ConfigurationError) as refused:
        Encrypted.from_env("SHOP_KEYS")
    assert NEW not in str(refused.value)
    assert OLD not in str(refused.value)


@pytest.mark.parametrize("keys", [{}, None, {"a": b"short"}, {5: NEW}, {"a": 5}])
def test_so_are_keys_in_the_code(keys: object) -> None:
    with pytest.raises(ConfigurationError):
        Encrypted(keys)  # type: ignore[arg-type]


async def test_mission_control_and_the_commands_name_the_key_and_show_nothing(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path.as_posix()}/jobs.db"
    async with make(Windlass(url, codec=Encrypted({"2026-01": NEW}))) as app:
        job = await app.aenqueue("mail.send", ADA)
        await app.arun_until_idle()
        data = json.loads(stored(job).payload)["$windlass"]["data"]
        async with visiting(app) as visitor:
            answer = (await visitor.get(f"/api/jobs/{job.id}")).json()
            texts = [(await visitor.get(page)).text for page in ("/jobs", f"/jobs/{job.id}")]
    assert answer["payload"] == answer["result"] == "encrypted (key 2026-01)"
    texts.append(await asyncio.to_thread(Desk(url).ok, "job", "show", str(job.id)))
    for text in texts:
        assert "encrypted (key 2026-01)" in text
        assert ADA not in text
        assert data not in text


def test_a_value_takes_microseconds() -> None:
    codec = Encrypted({"2026": NEW})
    began = time.thread_time()
    for _ in range(200):
        unseal(codec, seal(codec, '{"to":"ada@example.org"}', HERE), HERE)
    assert (time.thread_time() - began) / 200 < 0.001
