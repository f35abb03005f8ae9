"""A call's arguments as JSON text: bound to the task's signature, checked against its annotations [E3].

The format stands in `windlass.store.records`: an object of named arguments, an array of positional ones, or
an object whose key "*" holds the positional ones beside the named. A known task writes names wherever its
signature allows, so that a later version may reorder its parameters. What was not passed is not written: the
default that counts is the one in force when the job runs.

A parameter annotated with `Context` is no argument: the worker fills it in, by name. No payload holds it.

The check at enqueue is the decoding at run: what was written is read back with the very same decoders, so a
job that was accepted can be run by the code that accepted it.
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from inspect import Parameter
from typing import Any, Final

import msgspec

from windlass.codec import MARK
from windlass.core.read_errors import READ_ERRORS
from windlass.errors import CodecError, ConfigurationError, InvalidArguments, InvalidPayload, PayloadTooLarge
from windlass.handles.results import Handed
from windlass.running.context import Context
from windlass.running.encoding import Decoder, decoder, encode
from windlass.store.fields import JobOptions
from windlass.tasks.functions import misplaced_options

POSITIONALS: Final = "*"
_ABSENT: Final = object()
_RAW: Final = msgspec.json.Decoder(list[msgspec.Raw] | dict[str, msgspec.Raw])
_RAW_LIST: Final = msgspec.json.Decoder(list[msgspec.Raw])
_NOT_SHOWN: Final = "it does not fit its annotation; the value is not shown, since this app has a codec"
_NAMED: Final = frozenset({Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY})
_OPTIONS: Final = frozenset(JobOptions.__annotations__)

Values = dict[str, Any]
Call = tuple[tuple[Any, ...], Values]


def encode_call(task: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """The payload of a call to a task whose code is not here: nothing to check it against but JSON [E1]."""
    for name in (POSITIONALS, MARK):
        if name in kwargs:
            raise InvalidArguments(f"task {task}: an argument cannot be called {name!r}")
    if not args:
        return _encode(task, kwargs, kwargs)
    numbered = {str(place): value for place, value in enumerate(args, 1)}
    payload = {POSITIONALS: args, **kwargs} if kwargs else args
    return _encode(task, payload, {**numbered, **kwargs})


def encode_call_around(
    task: str, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[str, dict[str, Handed]]:
    """Encode a call that is handed results of other jobs; see `Signature.encode_around`."""
    numbered = {str(place): value for place, value in enumerate(args)} | dict(kwargs)
    handed = {key: value for key, value in numbered.items() if type(value) is Handed}
    plain = [None if type(value) is Handed else value for value in args]
    text = encode_call(task, plain, {key: value for key, value in kwargs.items() if key not in handed})
    return text, handed


def fill_in(text: str, results: Mapping[str, str]) -> str:
    """A payload with these arguments in place, each as JSON text: by name, or by place from 0 [W4]."""
    raw = _RAW.decode(text)
    named: dict[str, msgspec.Raw] = {} if isinstance(raw, list) else raw
    placed = raw if isinstance(raw, list) else []
    if POSITIONALS in named:
        placed = _RAW_LIST.decode(named.pop(POSITIONALS))
    for key, value in results.items():
        if key.isdecimal():
            placed[int(key)] = msgspec.Raw(value.encode())
        else:
            named[key] = msgspec.Raw(value.encode())
    if not placed:
        return msgspec.json.encode(named).decode()
    return msgspec.json.encode({POSITIONALS: placed, **named} if named else placed).decode()


class Signature:
    """The arguments and the result of a task's function, as far as its annotations say.

    `context` is the name of the parameter that takes the run's context, if there is one; it stands in no
    payload. The call that `decode` returns leaves room for it by name.
    """

    def __init__(self, task: str, function: Callable[..., Any]) -> None:
        self._task = task
        self._function = function
        whole = inspect.signature(function)
        self.context_type: type[Context] = Context
        self.context: Final = self._find_context(whole)
        self._signature = whole.replace(
            parameters=[each for each in whole.parameters.values() if each.name != self.context]
        )
        parameters = self._signature.parameters
        self._plain = all(each.kind in _NAMED for each in parameters.values())
        self._count = len(parameters)
        self._order = [name for name, each in parameters.items() if each.kind is not Parameter.KEYWORD_ONLY]
        self._required = {name for name, each in parameters.items() if each.default is Parameter.empty}
        self._optional = len(self._required) < len(parameters)
        self.secret = False
        """True if errors must not show values: what is encrypted in one column stands in no other."""

    def encode(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
        """The payload of this call. Raises an EnqueueError that names the argument at fault [E3] [E4]."""
        if self._plain:
            named = self._name(args, kwargs)
            text = _encode(self._task, named, named)
        else:
            bound = self._bind(args, kwargs)
            text = encode_call(self._task, bound.args, bound.kwargs)
        if not self._reads(text):
            self.decode(text)  # argument by argument, to say which one is wrong
        return text

    def encode_around(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[str, dict[str, Handed]]:
        """The payload of a call that is handed results of other jobs, with null in their place, and which
        those are, by name [W4]. The other arguments are checked as always."""
        bound = self._bind(args, kwargs)
        handed = {name: value for name, value in bound.arguments.items() if type(value) is Handed}
        named: Values = {}
        for name, value in bound.arguments.items():
            if self._signature.parameters[name].kind not in _NAMED:
                raise InvalidArguments(
                    f"task {self._task}: results of other jobs are handed to arguments that have a name, and "
                    f"{name!r} of this task has none of its own"
                )
            if name in handed:
                named[name] = None
                continue
            text = _encode(self._task, value, {name: value})
            self._decode(name, name, msgspec.Raw(text.encode()))
            named[name] = msgspec.Raw(text.encode())
        return _encode(self._task, named, {}), handed

    def _reads(self, text: str) -> bool:
        """Return whether a payload is read in one go, by name and by annotation."""
        if self._whole is None:
            return False
        try:
            self._whole.decode(text)
        except READ_ERRORS:
            return False
        return True

    def decode(self, text: str) -> Call:
        """The call that a payload stands for, with every argument of its annotated type.

        Raises InvalidPayload where the text is no payload, InvalidArguments where it does not fit.
        """
        if self._whole is not None:
            try:
                found = msgspec.structs.asdict(self._whole.decode(text))
            except READ_ERRORS:
                pass  # argument by argument, to say which one is wrong, or because they came by position
            else:
                if not self._optional:
                    return (), found
                return (), {name: value for name, value in found.items() if value is not _ABSENT}
        args, kwargs = self._split(text)
        bound = self._bind(args, kwargs)
        for name, value in bound.arguments.items():
            match self._signature.parameters[name].kind:
                case Parameter.VAR_POSITIONAL:
                    rest = tuple(self._decode(name, f"*{name}[{n}]", raw) for n, raw in enumerate(value))
                    bound.arguments[name] = rest
                case Parameter.VAR_KEYWORD:
                    bound.arguments[name] = {key: self._decode(name, key, raw) for key, raw in value.items()}
                case _:
                    bound.arguments[name] = self._decode(name, name, value)
        return (bound.args, bound.kwargs) if self.context is None else self._by_name(bound)

    def decode_result(self, text: str | None) -> Any:
        """A kept return value, read by the function's return annotation [O8]."""
        if text is None:
            return None
        try:
            return self._result.decode(text)
        except READ_ERRORS:
            if not self.secret:
                raise
            raise msgspec.ValidationError(_NOT_SHOWN) from None

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the arguments, as far as they have one each."""
        variable = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
        return tuple(each.name for each in self._signature.parameters.values() if each.kind not in variable)

    @property
    def required(self) -> set[str]:
        """The names of those that have no default."""
        return self._required & set(self.names)

    @property
    def defaults(self) -> Values:
        """Return the values of arguments that are not passed."""
        found = self._signature.parameters.values()
        return {each.name: each.default for each in found if each.default is not Parameter.empty}

    @property
    def takes_any(self) -> bool:
        """Return whether it takes arguments of any name."""
        return any(each.kind is Parameter.VAR_KEYWORD for each in self._signature.parameters.values())

    def arguments(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Values:
        """All arguments of a call by name, defaults included."""
        bound = self._bind(args, kwargs)
        bound.apply_defaults()
        return dict(bound.arguments)

    def partial(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Values:
        """Some of a call's arguments by name, for comparing; unlike `encode` it asks for none of them."""
        try:
            return dict(self._signature.bind_partial(*args, **kwargs).arguments)
        except TypeError as error:
            raise InvalidArguments(f"task {self._task}: {error}") from None

    def _name(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Values:
        """Arguments by name. The common case spares inspect's `bind`, which takes longer than the rest."""
        named = dict(zip(self._order, args, strict=False))
        if not kwargs and len(args) == len(named) == self._count:
            return named
        if len(args) == len(named) and not (kwargs and named.keys() & kwargs.keys()):
            named |= kwargs
            if self._required <= named.keys() <= self._signature.parameters.keys():
                return named
        return dict(self._bind(args, kwargs).arguments)

    def _bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> inspect.BoundArguments:
        if self.context in kwargs:
            raise InvalidArguments(
                f"task {self._task}: {self.context!r} is the context of the run, which the worker fills in"
            )
        try:
            return self._signature.bind(*args, **kwargs)
        except TypeError as error:
            unknown = () if self.takes_any else kwargs.keys() - self._signature.parameters.keys()
            options = {name: kwargs[name] for name in kwargs if name in unknown and name in _OPTIONS}
            advice = f"; {misplaced_options(self._function, options)}" if options else ""
            raise InvalidArguments(f"task {self._task}: {error}{advice}") from None

    def _by_name(self, bound: inspect.BoundArguments) -> Call:
        """The call with as much as possible by name: a positional argument would take the context's place."""
        if any(self._signature.parameters[name].kind is Parameter.VAR_POSITIONAL for name in bound.arguments):
            return bound.args, bound.kwargs  # then the context is keyword-only
        args: list[Any] = []
        kwargs: Values = {}
        for name, value in bound.arguments.items():
            match self._signature.parameters[name].kind:
                case Parameter.POSITIONAL_ONLY:
                    args.append(value)
                case Parameter.VAR_KEYWORD:
                    kwargs |= value
                case _:
                    kwargs[name] = value
        return tuple(args), kwargs

    def _find_context(self, whole: inspect.Signature) -> str | None:
        found = [each for each in whole.parameters.values() if self._is_context(each.annotation)]
        if not found:
            return None
        kinds = {each.kind for each in whole.parameters.values()}
        kind = found[0].kind
        if len(found) > 1 or kind in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD):
            raise ConfigurationError(
                f"task {self._task}: a run has one Context; annotate one parameter with it"
            )
        if kind is Parameter.POSITIONAL_ONLY or (
            kind is not Parameter.KEYWORD_ONLY and Parameter.VAR_POSITIONAL in kinds
        ):
            raise ConfigurationError(
                f"task {self._task}: the worker passes {found[0].name!r} by name, beside other positional "
                f"arguments; make it keyword-only: (..., *, {found[0].name}: Context)"
            )
        return found[0].name

    def _is_context(self, annotation: Any) -> bool:
        """Return whether it is Context or a kind of it, or that | None: handy where the function is called
        directly, too."""
        if isinstance(annotation, str):
            try:
                annotation = self._resolve(annotation)
            except Exception:  # noqa: BLE001 - any text may stand here; `_reader` tells what is wrong, in time
                return False
        choices = typing.get_args(annotation)
        if len(choices) == 2 and types.NoneType in choices:
            annotation = choices[0] if choices[1] is types.NoneType else choices[1]
        if not (isinstance(annotation, type) and issubclass(annotation, Context)):
            return False
        self.context_type = annotation
        return True

    def _split(self, text: str) -> Call:
        try:
            raw = _RAW.decode(text)
            if isinstance(raw, list):
                return tuple(raw), {}
            if MARK in raw:
                raise CodecError(
                    f"task {self._task}: the payload is sealed by a codec, and this app has none; write "
                    "Windlass(codec=…) as the app that enqueued it does"
                )
            args = _RAW_LIST.decode(raw.pop(POSITIONALS)) if POSITIONALS in raw else []
        except READ_ERRORS as error:
            raise InvalidPayload(f"task {self._task}: the payload cannot be read: {error}") from error
        return tuple(args), raw

    def _decode(self, parameter: str, shown: str, raw: msgspec.Raw) -> Any:
        try:
            return self._decoders[parameter].decode(raw)
        except READ_ERRORS as error:
            if self.secret:
                raise InvalidArguments(f"task {self._task}: argument {shown!r}: {_NOT_SHOWN}") from None
            raise InvalidArguments(f"task {self._task}: argument {shown!r}: {error}") from error

    @cached_property
    def _whole(self) -> Decoder | None:
        """A reader of all arguments in one go, which takes a fifth of the time; None where they cannot be
        told by name alone."""
        if not self._plain:
            return None
        fields: list[Any] = []
        try:
            for name, each in self._signature.parameters.items():
                annotation = self._resolve(each.annotation)
                kind = Any if annotation is object else annotation
                fields.append((name, kind) if name in self._required else (name, kind, _ABSENT))
            arguments = msgspec.defstruct("Arguments", fields, forbid_unknown_fields=True, kw_only=True)
            return decoder(arguments)
        except (NameError, TypeError, ValueError, ConfigurationError):
            return None  # the annotation at fault is named when it is read by itself
        except RuntimeError:  # a name such as __x, which a class would mangle
            return None

    @cached_property
    def _decoders(self) -> dict[str, Decoder]:
        # Not before the first call: annotations may name what the module defines further down.
        return {
            name: self._reader(f"argument {name!r}", each.annotation)
            for name, each in self._signature.parameters.items()
        }

    @cached_property
    def _result(self) -> Decoder:
        return self._reader("the return value", self._signature.return_annotation)

    def _reader(self, what: str, annotation: Any) -> Decoder:
        try:
            return decoder(self._resolve(annotation))
        except (NameError, ConfigurationError) as error:
            raise ConfigurationError(
                f"task {self._task}: {what}: {error}; annotate it with a type that is importable at run time "
                "and that JSON can carry"
            ) from error

    def _resolve(self, annotation: Any) -> Any:
        if annotation is Parameter.empty:
            return Any

        def holder() -> None: ...

        holder.__annotations__ = {"it": annotation}
        scope = getattr(inspect.unwrap(self._function), "__globals__", {})
        return typing.get_type_hints(holder, globalns=scope, include_extras=True)["it"]


def _encode(task: str, payload: Any, arguments: Mapping[str, Any]) -> str:
    try:
        return encode(payload)
    except PayloadTooLarge as error:
        raise PayloadTooLarge(f"task {task}: the payload {error}") from None
    except InvalidPayload as error:
        for name, value in arguments.items():  # only now is it worth finding out which one it was
            try:
                encode(value)
            except InvalidPayload as reason:
                raise InvalidPayload(f"task {task}: argument {name!r} {reason}") from reason.__cause__
        raise InvalidPayload(f"task {task}: the payload {error}") from error
