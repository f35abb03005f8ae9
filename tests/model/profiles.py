"""How long to search: `ci` in every run, `soak` when asked for with WINDLASS_MODEL=soak."""

import os

from hypothesis import HealthCheck, settings

SOAK_FACTOR = 200


def profile(*, ci: int) -> settings:
    """Settings for a machine that gets `ci` examples in every run, and many more in a soak."""
    soak = os.environ.get("WINDLASS_MODEL", "ci") == "soak"
    return settings(
        max_examples=ci * SOAK_FACTOR if soak else ci,
        stateful_step_count=100 if soak else 50,
        deadline=None,
        print_blob=True,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
