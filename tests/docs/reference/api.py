"""Every endpoint of the API, from its OpenAPI document, grouped by what it is about."""

from typing import Any, Final

from tests.docs.reference.tables import code, plain, table
from windlass.web.api.openapi import document
from windlass.web.api.routing import ENDPOINTS

TITLES: Final = {
    "jobs": "Jobs", "bulk": "Bulk operations", "queues": "Queues and tasks", "parents": "Parents",
    "schedules": "Schedules", "budgets": "Budgets", "overview": "Overview", "workers": "Workers",
    "events": "Events", "measures": "Measures", "store": "Store",
}  # fmt: skip


def written() -> str:
    """A table for each group of endpoints."""
    described = document(ENDPOINTS)
    groups: dict[str, list[tuple[str, ...]]] = {}
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            row = (code(f"{method.upper()} {path}"), operation["x-role"], _takes(operation, described))
            message = plain(operation["summary"])
            groups.setdefault(operation["tags"][0], []).append((*row, message))
    order = [*TITLES, *sorted(groups.keys() - TITLES.keys())]
    head = ("endpoint", "role", "takes", "what")
    return "\n".join(
        f"## {TITLES.get(tag, tag.capitalize())}\n\n{table(head, groups[tag])}"
        for tag in order
        if tag in groups
    )


def _takes(operation: dict[str, Any], described: dict[str, Any]) -> str:
    query = [code(each["name"]) for each in operation.get("parameters", ()) if each["in"] == "query"]
    parts = [f"query: {', '.join(query)}"] if query else []
    if "requestBody" in operation:
        ref = operation["requestBody"]["content"]["application/json"]["schema"]["$ref"]
        fields = described["components"]["schemas"][ref.rsplit("/", 1)[1]].get("properties", {})
        parts.append(f"body: {', '.join(code(name) for name in fields)}")
    return "; ".join(parts)
