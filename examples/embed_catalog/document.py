"""The source: an OpenAPI document, and the operations in it. `write_document` makes one to play with."""

import json
from pathlib import Path
from typing import Any

from windlass import SourceGone

THINGS = """
    account address alert basket brand bundle campaign carrier category channel charge claim country coupon
    courier currency customer discount employee gift invoice label ledger order parcel payment payout price
    product refund return review role shipment supplier tax warehouse
"""
METHODS = {
    "get": ("/{thing}s", "list", "List {thing}s, newest first, page by page"),
    "post": ("/{thing}s", "create", "Create a new {thing} and return it"),
    "put": ("/{thing}s/{{id}}", "replace", "Replace the {thing} that has this id"),
    "delete": ("/{thing}s/{{id}}", "delete", "Delete the {thing} that has this id, for good"),
}


def write_document(path: Path) -> None:
    """A document with 37 × 4 = 148 operations."""
    paths: dict[str, dict[str, Any]] = {}
    for thing in THINGS.split():
        for method, (address, verb, summary) in METHODS.items():
            operation = {
                "operationId": f"{verb}_{thing}",
                "summary": summary.format(thing=thing),
                "tags": [thing],
            }
            paths.setdefault(address.format(thing=thing), {})[method] = operation
    document = {"openapi": "3.1.0", "info": {"title": "Shop", "version": "1"}, "paths": paths}
    path.write_text(json.dumps(document, indent=1), encoding="utf-8")


def operations(path: str) -> list[dict[str, str]]:
    """Every operation with the text that stands for it. A document that vanished has none, and whoever asked
    has nothing left to do."""
    try:
        document = json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise SourceGone(f"there is no document {path} any more") from error
    return [
        {"id": operation["operationId"], "text": f"{operation['summary']}. {method.upper()} {address}"}
        for address, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
