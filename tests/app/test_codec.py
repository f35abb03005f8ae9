"""A codec stands between users' data and every store: arguments, results, checkpoints, parts, schedules."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import pytest

from tests.app import sealed_tasks
from tests.stored import stored
from windlass import Context, Items, Part, Retry, State, Windlass
from windlass.codec import Purpose, seal, sealed_in_words, unseal
from windlass.errors import CodecError, ConfigurationError, InvalidArguments, ResultInvalid
from windlass.store.sqlite import SQLiteStore
from windlass.tasks.gaps import default_key
from windlass.testing import assert_enqueued, assert_not_enqueued

ADA = "ada@example.org"


class Backwards:
    """A codec that hides nothing from people who can read backwards, and says what it was asked."""

    name = "backwards"

    def __init__(self, *, require: bool = False) -> None:
        self.require = require
        self.purposes: set[Purpose] = set()

    def encode(self, data: bytes, purpose: Purpose) -> dict[str, Any]:
        self.purposes.add(purpose)
        return {"data": data.decode()[::-1], "for": list(purpose)}

    def decode(self, fields: Mapping[str, Any], purpose: Purpose) -> bytes:
        assert fields["for"] == list(purpose)
        return str(fields["data"])[::-1].encode()


@pytest.fixture
def codec() -> Backwards:
    return Backwards()


@pytest.fixture
def coded(url: str, codec: Backwards) -> Iterator[Windlass]:
    with Windlass(url, codec=codec) as app:
        yield app


@pytest.fixture
def in_memory(codec: Backwards) -> Windlass:
    return Windlass(store=SQLiteStore(":memory:"), codec=codec)


def sealed(text: str | None) -> bool:
    return text is not None and sealed_in_words(text) == "backwards" and ADA not in text


def test_arguments_and_results_are_stored_sealed(coded: Windlass, codec: Backwards) -> None:
    @coded.task(name="mail.send")
    def send(to: str, template: str = "welcome") -> str:
        return f"{template} to {to}"

    job = send.enqueue(ADA)
    many = [send.job(id) for id in send.enqueue_many([(ADA, "news"), {"to": ADA}])]
    by_name = coded.enqueue("mail.send", to=ADA)
    assert sealed(stored(job).payload)
    assert json.loads(stored(job).payload).keys() == {"$windlass"}
    assert coded.run_until_idle().succeeded == 4
    for each in (job, *many, by_name):
        assert sealed(stored(each).payload)
        assert sealed(stored(each).result)
    assert job.record().payload == {"to": ADA}
    assert job.record().result == f"welcome to {ADA}"
    assert job.result() == coded.job(job.id).result() == by_name.result() == f"welcome to {ADA}"
    assert many[0].result() == f"news to {ADA}"
    assert codec.purposes == {Purpose("payload", "mail.send"), Purpose("result", "mail.send")}
    again = job.replay()
    coded.run_until_idle()
    assert again.result() == f"welcome to {ADA}"


def test_checkpoints_are_sealed_and_found_again(coded: Windlass) -> None:
    seen: list[Any] = []

    @coded.task(retry=Retry(2, base=0))
    async def load(ctx: Context) -> None:
        seen.append(await ctx.asaved())
        await ctx.asave({"at": ADA}, done=1, total=2)
        if len(seen) == 1:
            await ctx.aprogress(1, 2)
            raise RuntimeError("once")

    job = load.enqueue()
    assert coded.run_until_idle(wait=5).succeeded == 1
    assert seen == [None, {"at": ADA}]
    assert job.status() == State.SUCCEEDED


def test_what_a_plain_function_saved_is_sealed(coded: Windlass) -> None:
    @coded.task(retry=Retry(2, base="1h"))
    def load(ctx: Context) -> None:
        ctx.save(ADA, done=1, total=2)
        raise RuntimeError("once")

    job = load.enqueue()
    coded.run_until_idle()
    saved = stored(job).checkpoint
    assert saved is not None
    assert sealed(saved.data)
    assert (saved.done, saved.total) == (1, 2)
    assert job.record().checkpoint == ADA


def test_parts_carry_sealed_arguments_and_spans(coded: Windlass, codec: Backwards) -> None:
    read: list[str] = []

    @coded.chunked(name="load", split=Items(lambda who: [f"{who} {n}" for n in range(5)], 2))
    async def load(part: Part, who: str) -> None:
        async for batch in part.batches(1):
            read.extend(batch.records)
            await batch.done()

    @load.finalizer
    async def count(ctx: Context, who: str) -> str:
        return f"{len(read)} of {who}"

    job = load.enqueue(ADA)
    assert coded.run_until_idle().succeeded == 5  # split, three parts, finalizer
    assert sorted(read) == [f"{ADA} {n}" for n in range(5)]
    assert job.result() == f"5 of {ADA}"
    parent = coded.parent(job.id)
    items = [f"{ADA} {n}" for n in range(5)]
    assert [part.span for part in parent.parts()] == [items[:2], items[2:4], items[4:]]
    kept = coded._store_handle().call(lambda store: store.parts(job.id))
    assert all(sealed(msgspec.json.encode(part.span).decode()) for part in kept)
    assert parent.record().records == 5  # the store adds them up
    assert {purpose.kind for purpose in codec.purposes} == {"payload", "result", "checkpoint", "span"}


@pytest.mark.parametrize("url", ["sqlite", "postgresql"], indirect=True)
def test_a_result_that_is_set_in_a_transaction_is_sealed(coded: Windlass) -> None:
    @coded.task
    async def move(ctx: Context) -> None:
        async with ctx.transaction():
            ctx.result = ADA

    job = move.enqueue()
    coded.run_until_idle()
    assert sealed(stored(job).result)
    assert coded.job(job.id).result() == ADA


async def test_the_arguments_of_a_schedule_are_sealed(coded: Windlass) -> None:
    seen: list[str] = []

    @coded.schedule("0 9 * * *", kwargs={"to": ADA})
    @coded.task(name="report")
    async def report(to: str) -> None:
        seen.append(to)

    async with coded:
        async with coded._store_handle().here() as store:
            await coded.schedules.aseed(store)
            (kept,) = await store.schedules()
        assert sealed(kept.payload)
        (found,) = await coded.schedules.arecords()
        assert found.payload == {"to": ADA}
        await coded.schedules.arun("report")
        await coded.arun_until_idle()
    assert seen == [ADA]


def test_keys_come_from_the_arguments_and_a_budget_can_read_its_own(coded: Windlass) -> None:
    """[F1] What the store must know stays readable, and nothing else does."""
    coded.budget("api", rate="1/h", burst=1, key="tenant")

    @coded.task(name="sync", budgets=["api"], ordering_key="tenant")
    def sync(tenant: int, secret: str) -> str:
        return secret

    job = sync.enqueue(7, ADA)
    record = stored(job)
    assert record.options.ordering_key == "sync:7"
    assert json.loads(record.payload)["tenant"] == "7"
    assert ADA not in record.payload
    sync.enqueue_many([(7, ADA), (8, ADA)])
    assert coded.run_until_idle().succeeded == 2  # the second job of tenant 7 waits for its next token
    assert job.result() == ADA


def test_a_function_in_another_process_gets_what_was_sealed() -> None:
    job = sealed_tasks.double.enqueue(21)
    assert sealed_tasks.app.run_until_idle().succeeded == 1
    assert job.result() == 42
    assert sealed_in_words(stored(job).result) == "encrypted (key 2026)"


def test_batches_read_each_job_by_itself(in_memory: Windlass) -> None:
    seen: list[str] = []

    @in_memory.task(batch=10)
    async def index(pages: list[str]) -> list[Any]:
        seen.extend(pages)
        return [page.upper() for page in pages]

    ids = index.enqueue_many([("a",), ("b",)])
    plain = Windlass(store=in_memory._given)
    broken = plain.named(index.name).enqueue(page={"$nope": 1})
    assert in_memory.run_until_idle().succeeded == 2
    assert sorted(seen) == ["a", "b"]
    assert index.job(ids[0]).result() == "A"
    assert broken.status() == State.RETRYING


def test_jobs_in_plain_are_read_unless_the_codec_refuses_them(url: str) -> None:
    with Windlass(url) as producer, Windlass(url, codec=Backwards(require=True)) as strict:
        if url == "sqlite:///:memory:":
            strict._given = producer._given = SQLiteStore(":memory:")
        job = producer.named("echo.back").using(max_attempts=1).enqueue(ADA)

        @strict.task(name="echo.back")
        def back(value: str) -> str:
            return value

        strict.run_until_idle()
        assert job.status() == State.DEAD
        (error,) = job.record().errors
        assert error.type == "windlass.errors.CodecError"
        assert "without the codec 'backwards'" in error.message
        with Windlass(url, codec=Backwards()) as lenient:
            lenient._given = producer._given
            lenient._register(back)
            back.app = lenient
            assert job.retry() == "retried"
            lenient.run_until_idle()
            assert job.status() == State.SUCCEEDED
            assert lenient.job(job.id).result() == ADA


@pytest.mark.parametrize("named", [True, False])
def test_an_app_without_the_codec_says_so(codec: Backwards, *, named: bool) -> None:
    store = SQLiteStore(":memory:")
    writer, reader = Windlass(store=store, codec=codec), Windlass(store=store)

    def by_name(to: str) -> str:
        return to

    def by_anything(**arguments: str) -> None:
        raise AssertionError(arguments)

    reader.task(name="mail.send")(by_name if named else by_anything)
    job = writer.named("mail.send").enqueue(to=ADA)
    reader.run_until_idle()
    (error,) = reader.job(job.id).record().errors
    assert error.type == "windlass.errors.CodecError"
    assert "Windlass(codec=…)" in error.message


def test_errors_do_not_show_what_the_payload_holds(in_memory: Windlass) -> None:
    from pydantic import BaseModel

    class Person(BaseModel):
        age: int

    @in_memory.task(name="greet", retry=Retry(1))
    def greet(person: Person) -> int:
        return person.age

    with pytest.raises(InvalidArguments, match="argument 'person': it does not fit") as refused:
        greet.enqueue({"age": ADA})  # type: ignore[arg-type]
    assert ADA not in str(refused.value)
    job = in_memory.named("greet")
    sent = Windlass(store=in_memory._given).named(job.name).enqueue(person={"age": ADA})
    in_memory.run_until_idle()
    (error,) = sent.record().errors
    assert "argument 'person': it does not fit" in error.message
    assert ADA not in error.message + (error.traceback or "")


def test_nor_does_a_result_that_does_not_fit(in_memory: Windlass) -> None:
    @in_memory.task(name="age")
    def age() -> int:
        return ADA  # type: ignore[return-value]

    job = age.enqueue()
    in_memory.run_until_idle()
    with pytest.raises(ResultInvalid) as refused:
        job.result()
    assert ADA not in str(refused.value)


def test_the_key_of_a_gap_is_a_hash(in_memory: Windlass) -> None:
    """[K5] It must be the same for the same arguments, which a sealed payload is not."""

    @in_memory.task(name="embed")
    def embed(text: str) -> None: ...

    @embed.find_gaps
    def missing() -> Iterator[tuple[str]]:
        yield (ADA,)

    assert embed.reconcile().enqueued == 1
    assert embed.reconcile().under_way == 1
    key = assert_enqueued(in_memory, embed, ADA).options.unique_key
    assert key is not None
    assert key == default_key("embed", json.dumps({"text": ADA}, separators=(",", ":")), readable=False)
    assert ADA not in key


def test_the_testing_kit_reads_what_is_sealed(in_memory: Windlass) -> None:
    ran: list[str] = []

    @in_memory.task
    def send(to: str) -> str:
        ran.append(to)
        return to

    with in_memory.testing(inline=True):
        assert send.enqueue(ADA).result() == ADA
        assert ran == [ADA]
        assert assert_enqueued(in_memory, send, ADA).payload == {"to": ADA}
        assert_not_enqueued(in_memory, send, "bob@example.org")
        with pytest.raises(AssertionError, match=ADA):
            assert_enqueued(in_memory, send, "bob@example.org")


def test_no_argument_can_pass_for_a_sealed_value(app: Windlass) -> None:
    with pytest.raises(InvalidArguments, match=r"cannot be called '\$windlass'"):
        app.enqueue("any", **{"$windlass": {}})


def test_what_is_no_codec_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="codec="):
        Windlass("sqlite:///:memory:", codec="secret")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="codec="):
        Windlass("sqlite:///:memory:", codec=Backwards)  # type: ignore[arg-type]


def test_null_says_nothing_and_stays(codec: Backwards) -> None:
    purpose = Purpose("span", "any")
    assert seal(codec, "null", purpose) == "null"
    assert unseal(Backwards(require=True), "null", purpose) == "null"


@pytest.mark.parametrize("text", ['{"$windlass":5}', '{"$windlass":{"codec":"another"}}', '{"$windlass": '])
def test_a_sealed_value_that_cannot_be_read_is_an_error_of_its_own(codec: Backwards, text: str) -> None:
    with pytest.raises(CodecError):
        unseal(codec, text, Purpose("payload", "any"))
