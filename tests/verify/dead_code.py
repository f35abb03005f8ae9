"""The step that looks for names in the package that nobody uses, with vulture at its lowest confidence.

vulture reads Python alone. What templates, scripts, the docs or the examples say is used too, and so is the
a… form of a used name: every method has both. Tests do not count, since code that only a test calls is dead.
The rest is answered for in ANSWERED.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

from vulture import Vulture

from tests.verify.figures import ROOT, SOURCE, Figure, judged, say

STEP: Final = "dead-code"
CONFIDENCE: Final = 60
READERS: Final = {
    "src": ("*.html", "*.js"),
    "docs": ("*.md",),
    "examples": ("*.py", "*.md"),
    "deploy": ("*",),
}
DECORATORS: Final = [
    *("@*.command", "@*.group"),  # the CLI
    *("@*.get", "@*.post", "@*.put", "@*.patch", "@*.delete"),  # the API and the pages
    *("@*.task", "@*.chunked", "@*.finalizer", "@*.on_start", "@*.on_stop"),  # programs of the demo
    *("@*.register", "@overload"),
]
ANSWERED: Final[dict[str, str]] = {
    "abstract": "Django reads it",
    "add_arguments": "Django calls it",
    "base_manager_name": "Django reads it",
    "capture_signals": "uvicorn calls it",
    "collect": "prometheus_client calls it",
    "config_for_tool": "Pydantic AI calls it",
    "cycle_key": "Django calls it",
    "default_auto_field": "Django reads it",
    "default_permissions": "Django reads it",
    "engine_spec": "Pydantic AI reads it",
    "extra_context": "Django passes it",
    "format_commands": "click calls it",
    "get_command": "click calls it",
    "get_default_conversation_id": "Pydantic AI calls it",
    "get_default_run_id": "Pydantic AI calls it",
    "get_durable_operation_backend": "Pydantic AI calls it",
    "has_add_permission": "Django calls it",
    "has_delete_permission": "Django calls it",
    "list_commands": "click calls it",
    "managed": "Django reads it",
    "mtime_ns": "compared with the whole stamp",
    "obj": "Django passes it",
    "redirect_slashes": "starlette reads it",
    "registrations": "Pydantic AI calls it",
    "requires_system_checks": "Django reads it",
    "run_from_argv": "Django calls it",
    "run_p99": "in the API's answers",
    "send_with_options": "says to those who come from Dramatiq how it is called here",
    "should_exit": "uvicorn reads it",
    "spark": "in the API's answers",
    "supports_async_task": "Django reads it",
    "supports_defer": "Django reads it",
    "supports_get_result": "Django reads it",
    "supports_priority": "Django reads it",
    "wait_p99": "in the API's answers",
    "WindlassConfig": "Django finds it in apps.py",
}
"""Names that nothing above finds, and who uses them."""


def check(only: Sequence[str] = (), details: dict[str, Any] | None = None) -> list[Figure]:
    """The names that nobody uses."""
    said = {word for text in _texts() for word in re.findall(r"\w+", text)}
    vulture = Vulture(ignore_names=["__*__"], ignore_decorators=DECORATORS)
    vulture.scavenge([str(SOURCE)])
    unused = vulture.get_unused_code(min_confidence=CONFIDENCE)
    dead = [item for item in unused if not _is_used(item.name, said)]
    for item in dead:
        say(f"  {item.filename.relative_to(ROOT)}:{item.first_lineno}  {item.typ} {item.name}")
    stale = ANSWERED.keys() - {item.name for item in unused}
    for name in sorted(stale):
        say(f"  ANSWERED names {name}, which vulture no longer asks about: remove it there")
    if details is not None:
        details[STEP] = [item.name for item in dead]
    what = f"unused names at {CONFIDENCE} % ({len(ANSWERED)} answered for)"
    count = len(dead) + len(stale)
    return [judged(STEP, what, figure=str(count), bound="0", holds=count == 0)]


def _is_used(name: str, said: set[str]) -> bool:
    if name in ANSWERED or name in said:
        return True
    return name.startswith("a") and name[1:] in said


def _texts() -> Iterator[str]:
    yield _code((ROOT / "README.md").read_text(encoding="utf-8"))
    for folder, patterns in READERS.items():
        for pattern in patterns:
            for path in (ROOT / folder).rglob(pattern):
                if path.is_file():
                    text = path.read_text(encoding="utf-8", errors="replace")
                    yield _code(text) if path.suffix == ".md" else text


def _code(page: str) -> str:
    """What a page says in code; its prose uses common words, which would hide much."""
    return "\n".join(re.findall(r"^```.*?^```|`[^`\n]+`", page, flags=re.MULTILINE | re.DOTALL))
