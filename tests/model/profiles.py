"""How long to search. `ci` is for every run and bounded in time; `soak` is for hours when asked for.

    pytest tests/model                  ci
    pytest tests/model -m soak          soak, and what it finds is shrunk

On a server a `ci` run does not shrink what it finds, since that takes minutes: it prints the steps as they
were and a line that reproduces them.
"""

from hypothesis import HealthCheck, Phase, settings

SEARCH = (Phase.explicit, Phase.reuse, Phase.generate)
COMMON = settings(
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def ci(examples: int, *, shrink: bool = True) -> settings:
    """A bounded search, the same in every run of the same code: what was green stays green. `soak` searches
    anew."""
    phases = (*SEARCH, Phase.shrink) if shrink else SEARCH
    return settings(
        COMMON, max_examples=examples, stateful_step_count=50, phases=phases, derandomize=True, database=None
    )


def soak() -> settings:
    """A long search."""
    return settings(COMMON, max_examples=10_000, stateful_step_count=100, phases=(*SEARCH, Phase.shrink))
