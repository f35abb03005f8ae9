"""Every metric, from the catalogue that exports them."""

from tests.docs.reference.tables import code, table
from windlass.metrics.catalog import MEASURES


def written() -> str:
    """One table, in the order of the catalogue."""
    rows = [
        (code(each.name), each.kind, ", ".join(code(label) for label in each.labels) or "–", each.help)
        for each in MEASURES
    ]
    return table(("metric", "type", "labels", "meaning"), rows)
