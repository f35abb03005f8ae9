"""Forms made of JSON schemas, and what fits them [W2]."""

import enum
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec
import pydantic
import pytest

from windlass.core.json_shapes import form_fields, misfit
from windlass.running.encoding import schema_of


class Level(enum.Enum):
    """One of two words."""

    LOW = "low"
    HIGH = "high"


@dataclass
class Approval:
    """Simple fields only."""

    ok: bool
    by: str = ""
    sum: float | None = None
    level: Level = Level.LOW
    times: int = 1


@dataclass
class Nested:
    """Fields that hold others."""

    inner: Approval
    tags: list[str]


def schema(kind: Any) -> Any:
    return msgspec.json.schema(kind)


def test_w2_simple_fields_become_a_form() -> None:
    fields = form_fields(schema(Approval))
    assert fields is not None
    assert [(each.name, each.kind, each.required) for each in fields] == [
        ("ok", "yes_no", True),
        ("by", "text", False),
        ("sum", "number", False),
        ("level", "choice", False),
        ("times", "whole", False),
    ]
    assert fields[3].choices == ("high", "low")


class Verdict(pydantic.BaseModel):
    """The same in pydantic, whose schemas say things in another way."""

    ok: bool
    by: str = pydantic.Field(default="", max_length=40, description="who")
    sum: float | None = None
    level: Level = Level.LOW
    times: Annotated[int, pydantic.Field(ge=1)] = 1
    word: Literal["yes", "no"] = "yes"


class Sheet(pydantic.BaseModel):
    """A model in a model."""

    inner: Verdict
    tags: list[str]


def test_w2_a_pydantic_model_becomes_a_form_too() -> None:
    fields = form_fields(msgspec.json.decode(schema_of(Verdict) or ""))
    assert fields is not None
    assert [(each.name, each.kind, each.required, each.default) for each in fields] == [
        ("ok", "yes_no", True, None),
        ("by", "text", False, ""),
        ("sum", "number", False, None),
        ("level", "choice", False, "low"),
        ("times", "whole", False, 1),
        ("word", "choice", False, "yes"),
    ]
    assert (fields[3].choices, fields[5].choices) == (("low", "high"), ("yes", "no"))
    assert form_fields(msgspec.json.decode(schema_of(Sheet) or "")) is None


@pytest.mark.parametrize(
    ("kind", "value", "wrong"),
    [
        (Verdict, {"ok": True}, None),
        (Verdict, {"ok": True, "sum": None, "level": "high", "word": "no"}, None),
        (Verdict, {}, "it lacks 'ok'"),
        (Verdict, {"ok": True, "level": "mid"}, "'level' must be one of 'low', 'high'"),
        (Verdict, {"ok": True, "sum": "much"}, "'sum' must be a number"),
        (Sheet, {"inner": {"ok": 1}, "tags": []}, "'inner', 'ok' must be true or false"),
    ],
)
def test_w2_a_value_is_checked_by_a_pydantic_model(kind: Any, value: Any, wrong: str | None) -> None:
    assert misfit(msgspec.json.decode(schema_of(kind) or ""), value) == wrong


@pytest.mark.parametrize("kind", [list[Verdict], Verdict | None])
def test_w2_a_pydantic_model_in_a_type_of_its_own_is_a_box_that_takes_anything(kind: Any) -> None:
    assert schema_of(kind) is None
    assert form_fields(None) is None


@pytest.mark.parametrize(
    ("kind", "field"),
    [
        (bool, "yes_no"),
        (int, "whole"),
        (str, "text"),
        (Literal["a", "b"], "choice"),
        (float | None, "number"),
    ],
)
def test_w2_one_value_is_one_field(kind: Any, field: str) -> None:
    fields = form_fields(schema(kind))
    assert fields is not None
    assert [(each.name, each.kind) for each in fields] == [("", field)]


@pytest.mark.parametrize("kind", [Nested, list[int], dict[str, int], int | str])
def test_w2_anything_else_is_a_box(kind: Any) -> None:
    assert form_fields(schema(kind)) is None


@pytest.mark.parametrize("odd", [None, [], 3, {}, {"$ref": "#/a"}, {"$ref": "http://x"}, {"type": "object"}])
def test_w2_what_is_no_schema_is_a_box_that_takes_anything(odd: Any) -> None:
    assert form_fields(odd) is None
    assert misfit({"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/A"}}}, 5) is None


@pytest.mark.parametrize(
    ("kind", "value", "wrong"),
    [
        (Approval, {"ok": True}, None),
        (Approval, {"ok": True, "sum": None, "level": "high", "other": 1}, None),
        (Approval, {}, "it lacks 'ok'"),
        (Approval, {"ok": "yes"}, "'ok' must be true or false"),
        (Approval, {"ok": True, "times": 1.5}, "'times' must be a whole number"),
        (Approval, {"ok": True, "times": True}, "'times' must be a whole number"),
        (Approval, {"ok": True, "level": "mid"}, "'level' must be one of 'high', 'low'"),
        (Approval, 5, "it must be an object"),
        (Nested, {"inner": {"ok": 1}, "tags": []}, "'inner', 'ok' must be true or false"),
        (Nested, {"inner": {"ok": True}, "tags": ["a", 1]}, "'tags'[1] must be a text"),
        (int | str, 1.5, "it must be a whole number"),
    ],
)
def test_w2_a_value_is_checked_by_its_types(kind: Any, value: Any, wrong: str | None) -> None:
    found = misfit(schema(kind), value)
    assert (found is None) == (wrong is None), found
    if kind != int | str:
        assert found == wrong
