"""How long to search: `ci` in every run, `soak` when asked for with WINDLASS_MODEL=soak.

A run of `ci` is bounded in time, so it does not shrink what it finds: Hypothesis remembers the failure, and
the next run with WINDLASS_MODEL=soak begins with it and shrinks it.
"""

import os

from hypothesis import HealthCheck, Phase, settings

SOAK_FACTOR = 200


def profile(*, ci: int) -> settings:
    """Settings for a machine that gets `ci` examples in every run, and many more in a soak."""
    soak = os.environ.get("WINDLASS_MODEL", "ci") == "soak"
    search = [Phase.explicit, Phase.reuse, Phase.generate]
    return settings(
        max_examples=ci * SOAK_FACTOR if soak else ci,
        stateful_step_count=100 if soak else 50,
        phases=[*search, Phase.shrink] if soak else search,
        deadline=None,
        print_blob=True,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
