"""The OpenAPI 3.1 document of the API, made from the table of endpoints and the types they name."""

from __future__ import annotations

import re
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any, Final

import msgspec

from windlass import __version__
from windlass.operations.principal import Role
from windlass.web.api.endpoint import Endpoint
from windlass.web.http.answers import ErrorShape

_REF: Final = "#/components/schemas/{name}"
_NAMES: Final = re.compile(r"\{(\w+)\}")
_PATH: Final = {
    "id": {"type": "string", "pattern": "^[0-9]{1,19}$", "description": "The id of a job."},
    "name": {"type": "string", "pattern": "^[a-z0-9_.-]{1,64}$"},
}
_BULK: Final = {"type": "string", "pattern": "^[0-9a-f]{1,32}$", "description": "The id of a bulk operation."}
_TAG: Final = re.compile(r"\s*\[[A-Z]\d+\]")
"""Tags of behaviours in docstrings; users of the API do not need them."""
_ANY: Final = (401, 403, 421, 429, 500, 503)
_RETRY_AFTER: Final = {
    "Retry-After": {"description": "When to try again, in whole seconds.", "schema": {"type": "integer"}}
}


def document(endpoints: Iterable[Endpoint], *, prefix: str = "/api", server: str = "/") -> dict[str, Any]:
    """The whole document. `server` is where the app is mounted."""
    table = list(endpoints)
    types = [kind for each in table for kind in (each.answer, each.query, each.body) if kind is not None]
    refs, schemas = msgspec.json.schema_components([*types, ErrorShape], ref_template=_REF)
    for schema in schemas.values():
        _untag(schema)
    refs_of = dict(zip((repr(kind) for kind in (*types, ErrorShape)), refs, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in table:
        paths.setdefault(prefix + endpoint.path, {})[endpoint.method.lower()] = _operation(
            endpoint, refs_of, schemas
        )
    paths[f"{prefix}/stream"] = {"get": _stream(refs_of)}
    paths.setdefault(f"{prefix}/jobs/{{id}}/events", {})["get"] = _job_stream(refs_of)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Windlass",
            "version": __version__,
            "description": "Everything that Mission Control can show and do. Ids are strings, times are ISO "
            "8601 in UTC, durations are seconds unless the name says ms.",
        },
        "servers": [{"url": server or "/"}],
        "security": [{"basic": []}, {"bearer": []}],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "basic": {"type": "http", "scheme": "basic"},
                "bearer": {"type": "http", "scheme": "bearer"},
            },
        },
    }


def _operation(endpoint: Endpoint, refs: dict[str, Any], schemas: dict[str, Any]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": endpoint.handler.__name__,
        "summary": endpoint.summary,
        "tags": [endpoint.tag],
        "x-role": endpoint.role.name.lower(),
        "responses": {
            str(endpoint.status): {
                "description": HTTPStatus(endpoint.status).phrase,
                "content": {"application/json": {"schema": refs[repr(endpoint.answer)]}},
            },
            **_problems(endpoint, refs),
        },
    }
    known = {"id": _BULK} if endpoint.tag == "bulk" else _PATH
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": known[name]}
        for name in _NAMES.findall(endpoint.path)
    ]
    parameters += _query(schemas[endpoint.query.__name__])
    if parameters:
        operation["parameters"] = parameters
    if endpoint.body is not None:
        content = {"application/json": {"schema": refs[repr(endpoint.body)]}}
        operation["requestBody"] = {"required": endpoint.needs_body, "content": content}
    return operation


def _untag(schema: dict[str, Any]) -> None:
    if "description" in schema:
        schema["description"] = _TAG.sub("", schema["description"])
    for field in schema.get("properties", {}).values():
        _untag(field)


def _query(schema: dict[str, Any]) -> list[dict[str, Any]]:
    """The fields of a query as parameters. In an address nothing is null: such a field is left out."""
    return [
        {"name": name, "in": "query", "required": False, "schema": _not_null(field)}
        for name, field in schema.get("properties", {}).items()
    ]


def _not_null(field: dict[str, Any]) -> dict[str, Any]:
    choices = [each for each in field.get("anyOf", ()) if each != {"type": "null"}]
    return (
        choices[0] if len(choices) == 1 else {key: value for key, value in field.items() if key != "default"}
    )


def _problems(endpoint: Endpoint, refs: dict[str, Any]) -> dict[str, Any]:
    statuses = {400, *_ANY}
    if "{" in endpoint.path:
        statuses.add(404)
    if endpoint.role is Role.OPERATE:
        statuses |= {404, 409}
    if endpoint.body is not None:
        statuses |= {413, 415}
    return {str(status): _problem(status, refs) for status in sorted(statuses)}


def _problem(status: int, refs: dict[str, Any]) -> dict[str, Any]:
    details: dict[str, Any] = {
        "description": HTTPStatus(status).phrase,
        "content": {"application/json": {"schema": refs[repr(ErrorShape)]}},
    }
    if status in (429, 503):
        details["headers"] = _RETRY_AFTER
    return details


def _stream(refs: dict[str, Any]) -> dict[str, Any]:
    summary = "Server-sent events: a `tick` every two seconds, with how things stand and what changed"
    return _endless("stream", summary, "overview", refs)


def _job_stream(refs: dict[str, Any]) -> dict[str, Any]:
    """Describe the stream; its `data` is StreamEventShape."""
    summary = "Server-sent events: what a job emits, as it comes; `end` says how the job has ended"
    after = {"type": "integer", "minimum": 0, "default": 0, "description": "The position to go on from."}
    made = _endless("job_stream", summary, "jobs", refs)
    made["parameters"] = [
        {"name": "id", "in": "path", "required": True, "schema": _PATH["id"]},
        {"name": "after", "in": "query", "required": False, "schema": after},
        {"name": "Last-Event-ID", "in": "header", "required": False, "schema": after},
    ]
    made["responses"] |= {str(status): _problem(status, refs) for status in (400, 404)}
    return made


def _endless(id: str, summary: str, tag: str, refs: dict[str, Any]) -> dict[str, Any]:
    return {
        "operationId": id,
        "summary": summary,
        "tags": [tag],
        "x-role": "read",
        "responses": {
            "200": {"description": "OK", "content": {"text/event-stream": {"schema": {"type": "string"}}}},
            **{str(status): _problem(status, refs) for status in _ANY},
        },
    }
