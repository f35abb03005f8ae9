"""A scrape as Prometheus reads it, and the few expressions of its language that our manifests use."""

import re
from collections.abc import Mapping

from prometheus_client.parser import text_string_to_metric_families

Series = dict[tuple[str, frozenset[tuple[str, str]]], float]
_EXPRESSION = re.compile(r"(?P<how>max|sum)(?: by \((?P<by>\w+)\))? ?\((?P<name>\w+)(?:\{(?P<where>.*)\})?\)")
_MATCHER = re.compile(r'(\w+)="([^"]*)"')


def scraped(text: str, **target: str) -> Series:
    """Every sample of a scrape, with the labels of the target that was scraped. Each is there once."""
    found: Series = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            key = sample.name, frozenset({**sample.labels, **target}.items())
            assert key not in found, f"{key} is told twice"
            found[key] = sample.value
    return found


def one(series: Series, name: str, **labels: str) -> float:
    """The value of one series, all of its labels named."""
    return series[name, frozenset(labels.items())]


def evaluate(expression: str, series: Series) -> dict[str, float]:
    """The value by label, "" where the expression has no `by`."""
    read = _EXPRESSION.fullmatch(expression)
    assert read is not None, f"the evaluator of these tests does not know {expression!r}"
    where = dict(_MATCHER.findall(read["where"] or ""))
    groups: dict[str, list[float]] = {}
    for (name, pairs), value in series.items():
        labels: Mapping[str, str] = dict(pairs)
        if name == read["name"] and where.items() <= labels.items():
            groups.setdefault(labels[read["by"]] if read["by"] else "", []).append(value)
    return {group: max(values) if read["how"] == "max" else sum(values) for group, values in groups.items()}
