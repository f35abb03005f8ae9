"""The settings that each function runs with, made from its header when the functions are loaded.

`Plan: generic, pinned.` stands for the clauses of these words. `Plan: the caller's.` says that a function has
none and is run by functions that have; `Plan: none (reason).` that it has none, and why. What runs with its
owner's rights has a fixed search path besides. A setting of one function alone is written out in its text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from windlass.store.postgres.schema.sources import Definition

WORDS: Final[Mapping[str, str]] = {
    # The planner chooses.
    "free": "",
    # One plan, whatever the arguments are.
    "generic": "SET plan_cache_mode = force_generic_plan",
    # Rows come by an index, or by a bitmap of it.
    "indexed": "SET enable_seqscan = off",
    # Rows come by an index, one after another.
    "pinned": "SET enable_seqscan = off SET enable_bitmapscan = off",
    # Rows come in the order of an index, and nothing is sorted.
    "ordered": "SET enable_sort = off",
    # A join is a probe for each row.
    "nested": "SET enable_hashjoin = off SET enable_mergejoin = off",
}
"""The words of a plan and their clauses, in this order. Whatever the plan is, it is never compiled."""

CALLERS: Final = "the caller's"

_PLAN: Final = re.compile(r"\bPlan: (the caller's|none \([^()]+\)|[a-z]+(?:, [a-z]+)*)\.(?= |$)")
_SIGNATURE: Final = re.compile(r"^CREATE OR REPLACE .*?(?=\s+AS \$)", re.MULTILINE | re.DOTALL)
_DEFINER: Final = "SECURITY DEFINER"
_SEARCH_PATH: Final = "SET search_path = pg_catalog, pg_temp"


def plan_of(definition: Definition) -> str:
    """Return the plan that the header of a function names."""
    said = _PLAN.findall(definition.header)
    if len(said) != 1:
        raise AssertionError(f"the header of {definition.name} names {len(said)} plans instead of one")
    return str(said[0])


def signature_of(definition: Definition) -> str:
    """Return the text of a function between its header and its body."""
    found = _SIGNATURE.search(definition.text)
    if found is None:
        raise AssertionError(f"{definition.name} has no body between dollars")
    return found[0]


def with_settings(definition: Definition) -> str:
    """Return the text of a function with its settings in it."""
    plan, signature = plan_of(definition), signature_of(definition)
    bare = plan == CALLERS or plan.startswith("none ")
    if bare and _DEFINER in signature:
        raise AssertionError(f"{definition.name} runs with its owner's rights, so it needs a plan of its own")
    settings = "" if bare else "\n" + " ".join([*_clauses(definition.name, plan), "SET jit = off"])
    fixed = signature.replace(_DEFINER, f"{_DEFINER} {_SEARCH_PATH}") + settings
    return definition.text.replace(signature, fixed, 1)


def _clauses(name: str, plan: str) -> list[str]:
    words = plan.split(", ")
    if words != [word for word in WORDS if word in words]:
        allowed = ", ".join(WORDS)
        raise AssertionError(f"the plan of {name} is {plan!r}; write some of {allowed} in this order")
    return [WORDS[word] for word in words if WORDS[word]]
