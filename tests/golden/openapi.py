"""The OpenAPI document in files of its subjects. Responses that most operations share are said once."""

import asyncio
import json
import re
from collections import Counter
from typing import Any

from tests.golden.answers import laid_out
from tests.web.kit import visiting
from windlass import Windlass


def recorded() -> dict[str, str]:
    """The document, by subject."""
    text = asyncio.run(_document())
    # Python 3.13 takes the indent out of docstrings, and has another name for a status.
    text = re.sub(r"\\n +", r"\\n", text).replace("Request Entity Too Large", "Content Too Large")
    document: dict[str, Any] = json.loads(text)
    document["info"]["version"] = "…"
    paths = document.pop("paths")
    operations = [operation for methods in paths.values() for operation in methods.values()]
    answers = Counter(json.dumps(each) for operation in operations for each in operation["responses"].items())
    usual = dict(json.loads(each) for each, n in answers.most_common() if n > len(operations) / 2)
    found = {"schemas": document["components"].pop("schemas"), "usual responses": usual, "document": document}
    for path, methods in paths.items():
        for method, operation in methods.items():
            known = [status for status, each in operation["responses"].items() if usual.get(status) == each]
            others = {status: each for status, each in operation["responses"].items() if status not in known}
            operation["responses"] = {"usual": " ".join(known), **others}
            found.setdefault(operation["tags"][0], {}).setdefault(path, {})[method] = operation
    return {f"openapi/{name}.json": f"{laid_out(each)}\n" for name, each in found.items()}


async def _document() -> str:
    with Windlass("sqlite:///:memory:") as app:
        async with visiting(app) as visitor:
            return (await visitor.get("/api/openapi.json")).text
