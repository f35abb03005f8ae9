"""Endpoints made from operations: the query or the body of each is a record of the operation's arguments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final

import msgspec

from windlass.operations.operation import MAX_AT_ONCE, JobId, Operation, Param, given_id
from windlass.web.api.changes import BODIES, given
from windlass.web.api.endpoint import Call, Endpoint, Nothing

_IDS: Final = Annotated[list[JobId], msgspec.Meta(min_length=1, max_length=MAX_AT_ONCE)]


def endpoints(operations: Iterable[Operation[Any, Any]]) -> list[Endpoint]:
    """Return an endpoint for each operation that has a route."""
    return [_endpoint(each) for each in operations if each.path]


def _endpoint(operation: Operation[Any, Any]) -> Endpoint:
    named = [param for param in operation.params if param.in_path]
    others = [param for param in operation.params if not param.in_path]
    reads = operation.method == "GET"
    asked = _record(operation, others) if others else None

    async def handler(call: Call[Any, Any]) -> Any:
        sent = _arguments(others, call.query if reads else call.body)
        places = [
            call.id if param.name == "id" and param.type is not str else call.path[param.name]
            for param in named
        ]
        return await call.service.run(call.principal, operation, *places, **sent)

    handler.__name__ = operation.name
    return Endpoint(
        method=operation.method,
        path=operation.path,
        role=operation.role,
        summary=operation.summary,
        handler=handler,
        answer=operation.answer,
        query=(asked if reads else None) or Nothing,
        body=None if reads else asked,
        status=operation.status,
        tag=operation.subject,
    )


def _record(operation: Operation[Any, Any], params: list[Param]) -> type[msgspec.Struct]:
    """Return the type of a request's query or body."""
    first = params[0]
    if first.settings is not None:
        return BODIES[first.settings.record]
    if first.sent is not None:
        return first.sent.record
    if first.is_body:
        kind: type[msgspec.Struct] = first.type
        return kind
    return msgspec.defstruct(
        operation.name.title().replace("_", ""),
        [
            (each.name, _type(each))
            if each.default is msgspec.NODEFAULT
            else (each.name, _type(each), each.default)
            for each in params
        ],
        namespace={"__doc__": operation.summary},
        module=__name__,
        kw_only=True,
        forbid_unknown_fields=True,
    )


def _arguments(params: list[Param], sent: Any) -> Mapping[str, Any]:
    """Return what a request says, by the names of the operation's arguments."""
    if params and params[0].settings is not None:
        return {params[0].name: given(params[0].settings.record, sent)}
    if params and params[0].sent is not None:
        return {params[0].name: params[0].sent.read(sent)}
    if params and params[0].is_body:
        return {params[0].name: sent}
    return {each.name: _value(each, getattr(sent, each.name)) for each in params}


def _type(param: Param) -> Any:
    return _IDS if param.name == "ids" else param.type


def _value(param: Param, value: Any) -> Any:
    return [given_id(id) for id in value] if param.name == "ids" else value
