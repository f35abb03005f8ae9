"""Arguments against annotations [E3], and what no payload may hold [E4]: refused, named, nothing written."""

import math
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal

import msgspec
import pydantic
import pytest

from tests.tasks.counting import count_jobs
from windlass import Windlass
from windlass.errors import ConfigurationError, InvalidArguments, InvalidPayload, PayloadTooLarge
from windlass.running.encoding import LIMIT
from windlass.tasks.payload import Signature, encode_call


@dataclass
class Point:
    """A dataclass argument."""

    x: int
    y: int


class Invoice(pydantic.BaseModel):
    """A pydantic argument."""

    number: int
    issued: datetime
    lines: list[float] = []


def example(
    number: int,
    text: str = "x",
    *,
    point: Point | None = None,
    mode: Literal["fast", "slow"] = "fast",
    small: Annotated[int, msgspec.Meta(le=10)] = 1,
    invoice: Invoice | None = None,
    anything: Any = None,
) -> None: ...


@pytest.mark.parametrize(
    ("args", "kwargs", "named"),
    [
        (("five",), {}, "'number'"),
        ((5, 6), {}, "'text'"),
        ((True, "x"), {}, "'number'"),
        ((1.0,), {}, "'number'"),
        ((5,), {"point": {"x": 1}}, "'point'"),
        ((5,), {"point": Invoice(number=1, issued=datetime.now(UTC))}, "'point'"),
        ((5,), {"mode": "medium"}, "'mode'"),
        ((5,), {"small": 11}, "'small'"),
        ((5,), {"invoice": {"number": "?"}}, "'invoice'"),
        ((), {}, "'number'"),
        ((5, "a", "b"), {}, "too many positional"),
        ((5,), {"colour": "red"}, "'colour'"),
        ((5,), {"number": 6}, "'number'"),
    ],
)
def test_e3_a_wrong_argument_is_refused_by_name(
    app: Windlass, args: tuple[Any, ...], kwargs: dict[str, Any], named: str
) -> None:
    task: Any = app.task(name="the.task")(example)
    with pytest.raises(InvalidArguments, match=named) as caught:
        task.enqueue(*args, **kwargs)
    assert "the.task" in str(caught.value)
    assert count_jobs(app) == 0


@pytest.mark.parametrize(
    ("kwargs", "expected"),
    [
        ({"point": Point(1, 2)}, {"point": Point(1, 2)}),
        ({"point": {"x": 1, "y": 2}}, {"point": Point(1, 2)}),
        ({"invoice": Invoice(number=1, issued=datetime(2024, 1, 1, tzinfo=UTC))}, None),
        ({"anything": {"deep": [None, 1.5, "ü"]}}, {"anything": {"deep": [None, 1.5, "ü"]}}),
        ({"text": "line\nbreak"}, {"text": "line\nbreak"}),
    ],
)
def test_e3_what_was_written_is_read_with_its_types(
    kwargs: dict[str, Any], expected: dict[str, Any] | None
) -> None:
    signature = Signature("the.task", example)
    args, read = signature.decode(signature.encode((5,), kwargs))
    assert args == ()
    assert read == {"number": 5, **(expected or kwargs)}


def test_e3_paths_travel_as_text() -> None:
    """Also one whose name looks like infinity, which is looked at more closely."""

    def load(path: Path, more: list[PurePosixPath], other: Path | None = None, plain: Any = None) -> Path:
        raise NotImplementedError

    signature = Signature("the.task", load)
    given = Path("/data/info.csv"), [PurePosixPath("a/b")], Path("x"), Path("y")
    text = signature.encode(given, {})
    assert msgspec.json.decode(text) == {
        "path": "/data/info.csv", "more": ["a/b"], "other": "x", "plain": "y"
    }  # fmt: skip
    _, found = signature.decode(text)
    assert found == {
        "path": Path("/data/info.csv"), "more": [PurePosixPath("a/b")], "other": Path("x"), "plain": "y"
    }  # fmt: skip
    assert signature.decode_result('"/data"') == Path("/data")
    with pytest.raises(InvalidArguments, match=r"'path'.* path as `str`, got `int`"):
        signature.encode((5, []), {})


def test_e3_what_was_not_passed_is_not_written() -> None:
    assert Signature("the.task", example).encode((5,), {}) == '{"number":5}'


@pytest.mark.parametrize(
    "text",
    [
        '{"number":5,"text":"a"}',
        '[5,"a"]',
        '{"*":[5],"text":"a"}',
        '{"*":[5,"a"]}',
        '{"*":[],"number":5,"text":"a"}',
    ],
)
def test_all_forms_of_a_payload_mean_the_same_call(text: str) -> None:
    args, kwargs = Signature("the.task", example).decode(text)
    bound = dict(zip(("number", "text"), args, strict=False)) | kwargs
    assert bound == {"number": 5, "text": "a"}


def test_signatures_beyond_plain_names() -> None:
    def rest(first: int, /, *more: int, flag: bool = False, **extra: str) -> None: ...

    signature = Signature("the.task", rest)
    text = signature.encode((1, 2, 3), {"flag": True, "colour": "red", "first": "again"})
    assert msgspec.json.decode(text) == {"*": [1, 2, 3], "flag": True, "colour": "red", "first": "again"}
    assert signature.decode(text) == ((1, 2, 3), {"flag": True, "colour": "red", "first": "again"})
    assert signature.encode((1,), {}) == "[1]"
    with pytest.raises(InvalidArguments, match=r"'\*more\[1\]'"):
        signature.encode((1, 2, "three"), {})
    with pytest.raises(InvalidArguments, match="'colour'"):
        signature.encode((1,), {"colour": 5})


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (math.nan, "NaN"),
        (math.inf, "NaN"),
        ([{"a": -math.inf}], "NaN"),
        ({math.nan: 1}, "NaN"),
        (Decimal("NaN"), "NaN"),
        (Decimal("-Infinity"), "NaN"),
        (Invoice(number=1, issued=datetime(2024, 1, 1, tzinfo=UTC), lines=[math.nan]), "NaN"),
        ("a\0b", "NUL"),
        ({"a\0": 1}, "NUL"),
        ("\\\0", "NUL"),
        ("\ud800", "surrogate"),
        (object(), "object"),
        ({(1, 2): 3}, "tuple"),
        (lambda: None, "function"),
    ],
)
@pytest.mark.parametrize("known", [True, False])
def test_e4_what_cannot_be_stored_is_refused_by_name(
    app: Windlass, value: Any, reason: str, known: bool
) -> None:
    task: Any = app.task(name="the.task")(example) if known else app.named("the.task")
    with pytest.raises(InvalidPayload, match=reason) as caught:
        task.enqueue(5, anything=value)
    assert "'anything'" in str(caught.value)
    assert count_jobs(app) == 0


def test_e4_what_only_looks_like_that_is_kept() -> None:
    harmless = ["\\u0000", "null", "nan", "Infinity", None, "\\\\u0000", 2**70]
    text = encode_call("the.task", harmless, {})
    assert msgspec.json.decode(text) == harmless


def test_e4_nesting_without_end_is_refused(app: Windlass) -> None:
    knot: list[Any] = []
    knot.append(knot)
    with pytest.raises(InvalidPayload, match="nested"):
        app.enqueue("the.task", knot)


def test_e4_a_payload_over_one_mebibyte_is_refused(app: Windlass) -> None:
    room = LIMIT - len('["…"]'.replace("…", ""))
    app.enqueue("the.task", "x" * room)
    for text in ("x" * (room + 1), "ü" * (LIMIT // 2)):
        with pytest.raises(PayloadTooLarge, match=r"1,048,576"):
            app.enqueue("the.task", text)
    assert count_jobs(app) == 1


def test_e4_one_bad_item_keeps_all_of_a_call_from_being_written(any_app: Windlass) -> None:
    task = any_app.task(name="the.task")(example)
    for wrong, what in (
        (("three",), "task the.task: argument 'number'"),
        ((1, 2, 3), "task the.task: too many positional arguments"),
        ([2], "task the.task: this is of type list"),
    ):
        with pytest.raises(InvalidArguments, match=rf"^item 2: {what}"):
            task.enqueue_many([(1,), {"number": 2}, wrong])  # type: ignore[list-item]
    with pytest.raises(PayloadTooLarge, match=r"^item 1: "):
        any_app.named("other.task").enqueue_many([(1,), ("x" * LIMIT,)])
    assert count_jobs(any_app) == 0


def test_an_annotation_that_json_cannot_carry_is_a_configuration_error(app: Windlass) -> None:
    @app.task
    def either(when: datetime | str) -> None: ...

    with pytest.raises(ConfigurationError, match=r"'when'.*str-like"):
        either.enqueue("now")


def test_an_annotation_that_cannot_be_resolved_is_a_configuration_error(app: Windlass) -> None:
    def lost(thing: "Nowhere") -> None: ...  # type: ignore[name-defined]  # noqa: F821

    task: Any = app.task(lost)
    with pytest.raises(ConfigurationError, match=r"'thing'.*Nowhere"):
        task.enqueue(1)


@pytest.mark.parametrize("annotation", [object, Any, None])
def test_no_annotation_takes_anything(annotation: Any) -> None:
    def free(value): ...  # type: ignore[no-untyped-def]

    function: Callable[..., Any] = free
    function.__annotations__ = {} if annotation is None else {"value": annotation}
    signature = Signature("the.task", function)
    assert signature.decode(signature.encode(({"a": 1},), {})) == ((), {"value": {"a": 1}})


def test_a_name_that_a_class_would_mangle_is_a_name_like_others() -> None:
    def odd(__x: int, _y: int = 2, __z__: int = 3) -> None: ...

    signature = Signature("odd", odd)
    assert signature.encode([1], {"__z__": 4}) == '{"__x":1,"__z__":4}'
    assert signature.decode('{"__x":1}') == ((1,), {})
    with pytest.raises(InvalidArguments, match="argument '__x'"):
        signature.encode(["one"], {})


def test_uuid_and_friends_are_read_back_by_annotation() -> None:
    def take(id: uuid.UUID, when: datetime, price: Decimal, tags: set[str]) -> None: ...

    values = {
        "id": uuid.UUID(int=7),
        "when": datetime(2024, 2, 29, 12, 30, tzinfo=UTC),
        "price": Decimal("10.50"),
        "tags": {"a"},
    }
    signature = Signature("the.task", take)
    assert signature.decode(signature.encode((), values)) == ((), values)
