"""Values to JSON text and back. What the store could not keep, or would change, is refused here [E4].

Anything msgspec knows is accepted (builtins, dataclasses, structs, datetime, UUID, Decimal, enums, bytes, …),
paths and pydantic models besides. Never pickle.
"""

from __future__ import annotations

import functools
import inspect
import math
import re
import typing
from collections.abc import Callable
from decimal import Decimal
from pathlib import PurePath
from types import FunctionType
from typing import Any, Final, TypeAlias
from weakref import WeakKeyDictionary

import msgspec

from windlass.errors import ConfigurationError, EnqueueError, InvalidPayload, PayloadTooLarge
from windlass.store.fields import MAX_BYTES
from windlass.store.signal_rules import check_name

LIMIT: Final = MAX_BYTES
MAX_SCHEMA: Final = 64 * 1024
Decoder: TypeAlias = "msgspec.json.Decoder[Any]"

# JSON escapes a NUL as \u0000; an even number of backslashes before it would make it plain text.
_NUL: Final = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")


def encode(value: Any) -> str:
    """The value as JSON text. Raises InvalidPayload or PayloadTooLarge with the reason alone."""
    try:
        data = _ENCODER.encode(value)
    except RecursionError:
        raise InvalidPayload("nested too deeply to be written as JSON") from None
    except UnicodeEncodeError:
        raise InvalidPayload("holds text that is not valid Unicode (a lone surrogate)") from None
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidPayload(f"cannot be written as JSON: {error}") from error
    if len(data) > LIMIT:
        raise PayloadTooLarge(
            f"takes {len(data):,} bytes as JSON and at most {LIMIT:,} are kept with a job; store the data "
            "elsewhere and pass its address"
        )
    text = data.decode()
    if "\\u0000" in text and _NUL.search(text):
        raise InvalidPayload("holds a NUL byte, which PostgreSQL cannot store")
    if _may_hold_nan(text) and _has_nan(value):
        raise InvalidPayload("holds NaN or infinity, which JSON cannot write")
    return text


def as_signal(name: str, value: Any) -> str:
    """The value of a signal as JSON text. Raises InvalidOption, InvalidPayload or PayloadTooLarge [W2]."""
    check_name(name)
    try:
        return encode(value)
    except EnqueueError as error:
        raise type(error)(f"the value of signal {name!r} {error}") from error.__cause__


def decode(text: str | None) -> Any:
    """Return the value of a JSON text, with no annotation to read it by; None for none."""
    return None if text is None else msgspec.json.decode(text)


def decoder(annotation: Any) -> Decoder:
    """A reader of JSON text for this annotation. Raises ConfigurationError where there can be none."""
    try:
        return msgspec.json.Decoder(Any if annotation is object else annotation, dec_hook=_dec_hook)
    except TypeError as error:
        raise ConfigurationError(f"annotation {annotation!r} cannot be read from JSON: {error}") from error


def return_type(function: Callable[..., Any]) -> Any:
    """Return the annotated return type of a function; Any where it has none. Asked at each call of a step, so
    it is looked up once: an annotation that is a text has to be compiled, which takes longer than all the
    rest."""
    function = inspect.unwrap(function)
    key = getattr(function, "__func__", function)
    if not isinstance(key, FunctionType):
        return _return_type(function)
    try:
        return _return_types[key]
    except KeyError:
        found = _return_types[key] = _return_type(function)
        return found


_return_types: Final[WeakKeyDictionary[FunctionType, Any]] = WeakKeyDictionary()
"""By function: a closure goes when its handler has ended."""


def _return_type(function: Callable[..., Any]) -> Any:
    try:
        return typing.get_type_hints(function).get("return", Any)
    except (NameError, TypeError):
        return Any


@functools.lru_cache(256)
def schema_of(annotation: Any) -> str | None:
    """The JSON schema of what this annotation reads; None where it says nothing, or cannot be said."""
    if annotation is Any or annotation is object:
        return None
    try:
        own = getattr(annotation, "model_json_schema", None)
        text = msgspec.json.encode(own() if own is not None else msgspec.json.schema(annotation)).decode()
    except (TypeError, ValueError, msgspec.MsgspecError):
        return None
    return text if len(text) <= MAX_SCHEMA and "\\u0000" not in text else None


def _enc_hook(value: Any) -> Any:
    if isinstance(value, PurePath):
        return str(value)
    dump = getattr(value, "model_dump", None)
    if dump is None:
        raise TypeError(f"objects of type {type(value).__qualname__} are not supported")
    return dump(mode="json")


def _dec_hook(kind: Any, value: Any) -> Any:
    if isinstance(kind, type) and issubclass(kind, PurePath):
        if not isinstance(value, str):
            raise ValueError(f"Expected a path as `str`, got `{type(value).__name__}`")
        return kind(value)
    validate = getattr(kind, "model_validate", None)
    if validate is None:
        raise TypeError(f"{getattr(kind, '__qualname__', kind)} cannot be read from JSON")
    return validate(value)


def _may_hold_nan(text: str) -> bool:
    """msgspec writes NaN and infinity as null, "nan", "inf", …: only such texts need the closer look."""
    lower = text.lower()
    return "null" in lower or "nan" in lower or "inf" in lower


def _has_nan(value: Any) -> bool:
    plain = msgspec.to_builtins(value, builtin_types=(Decimal,), enc_hook=_look_hook)
    stack = [plain]
    while stack:
        item = stack.pop()
        if isinstance(item, float | Decimal):
            if not math.isfinite(item):
                return True
        elif isinstance(item, dict):
            stack.extend(item)
            stack.extend(item.values())
        elif isinstance(item, list | tuple | set | frozenset):
            stack.extend(item)
    return False


def _look_hook(value: Any) -> Any:
    """Unlike JSON mode, a plain dump of a pydantic model keeps NaN as it is."""
    dump = getattr(value, "model_dump", None)
    return str(value) if dump is None else dump()


_ENCODER: Final = msgspec.json.Encoder(enc_hook=_enc_hook)
