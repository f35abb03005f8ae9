"""The rules by which every store keeps reports [M1] [M2]: for how long, how much, and in which form.

Reports are read with care: whoever may report may write anything, and one batch that cannot be counted
would stop every rollup after it.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Final

import msgspec

from windlass.core.names import is_name
from windlass.core.read_errors import READ_ERRORS
from windlass.core.rollup import COUNTS, KEPT, Sample
from windlass.store.records import Event

logger: Final = logging.getLogger("windlass.store")
EVENTS_KEPT: Final = 7 * 86400.0
MAX_EVENTS: Final = 1_000_000
REPORTERS_KEPT: Final = 86400.0
"""Seconds for which a process that has fallen silent is remembered: it may send its last report again.
Workers that are alive are remembered for as long as they are."""
MAX_TEXT: Final = 500
REPORTS_COUNTED: Final = 10_000

STEP: Final = 100
"""Reports that are folded in one transaction at most, whatever a caller allows: it takes half a
millisecond each, and on SQLite nobody else writes meanwhile."""

BUCKETS: Final = range(-64, 512)
"""Buckets that a histogram may have: from a hundredth of a millisecond to more than anybody waits."""

_LATEST: Final = 1 << 40
_MAX_EXACT: Final = 1 << 53
_FULL: Final = (1 << 63) - 1
_samples = msgspec.json.Decoder(list[Sample]).decode
_apart = msgspec.json.Decoder(list[msgspec.Raw]).decode
_one = msgspec.json.Decoder(Sample).decode


# -- events ---------------------------------------------------------------------------------------------


def kept(event: Event, now: float = math.inf) -> Event:
    """An event as it can be kept: its texts cut to their length, and without what a text column refuses (NUL,
    lone surrogates). One that cannot be written would keep its process from reporting ever after. And
    none lies in the future, so that those with lower numbers are the older ones."""
    values = {name: getattr(event, name) for name in event.__struct_fields__}
    texts = {name: _kept_text(value) for name, value in values.items() if isinstance(value, str)}
    past = event.at <= now  # nor is what is no number
    if past and all(text == values[name] for name, text in texts.items()):
        return event
    return msgspec.structs.replace(event, **texts, at=event.at if past else now)


def _kept_text(text: str) -> str:
    return text[:MAX_TEXT].replace("\0", "\ufffd").encode("utf-8", "replace").decode("utf-8")


def cutoffs(now: float) -> dict[int, int]:
    """By span: rows of charts that begin before this have outlived their time."""
    return {span: int(now - keep) for span, keep in KEPT.items()}


# -- reports -----------------------------------------------------------------------------------------------


def read_report(text: str | None) -> list[Sample]:
    """The samples of one report that can be counted; the others are dropped."""
    if text is None:
        return []
    try:
        return countable(_samples(text))
    except READ_ERRORS as error:
        failure = error
    samples: list[Sample] = []
    try:
        for raw in _apart(text):  # those that came with it may be as they should
            try:
                samples.append(_one(raw))
            except READ_ERRORS as error:
                failure = error
    except READ_ERRORS as error:
        failure = error
    logger.warning("a report cannot be read, so it is not counted: %s", failure)
    return countable(samples)


def countable(samples: Iterable[Sample]) -> list[Sample]:
    """Return the samples that can be counted: of a time, a queue and a task that there can be, with numbers
    of things that are counted. Names become rows that are kept for ever."""
    given = list(samples)
    good = [sample for sample in given if _is_countable(sample)]
    if len(good) < len(given):
        logger.warning(
            "%d of %d samples of a report have an invalid time, name or number, so they are not counted",
            len(given) - len(good),
            len(given),
        )
    return good


def _is_countable(sample: Sample) -> bool:
    numbers = (sample.counts, sample.waits, sample.runs)
    return (
        0 <= sample.at < _LATEST
        and all(not name or is_name(name) for name in (sample.queue, sample.task))
        and sample.counts.keys() <= COUNTS
        and all(key in BUCKETS for key in chain(sample.waits, sample.runs))
        and all(min(each.values()) >= 0 and max(each.values()) < _MAX_EXACT for each in numbers if each)
    )


# -- rows of charts -------------------------------------------------------------------------------------


class _Packed(msgspec.Struct, array_like=True):
    """Counts as they are kept: of a histogram its first bucket, then the numbers of that one and all
    after it up to the last. Most times lie close together, so that a bucket costs one byte."""

    counts: dict[str, int]
    waits: list[int]
    runs: list[int]


_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(_Packed).decode


def pack(sample: Sample) -> bytes:
    """Encode the counts of a row of a chart, in a tenth of what they take as JSON."""
    counts = {name: min(n, _FULL) for name, n in sample.counts.items()}
    return _pack(_Packed(counts, _line(sample.waits), _line(sample.runs)))


def unpack(packed: bytes, at: int, queue: str, task: str) -> Sample:
    """The row of a chart at this place. Raises msgspec.MsgspecError for what nobody has packed."""
    row = _unpack(packed)
    return Sample(
        at=at,
        queue=queue,
        task=task,
        counts=row.counts,
        waits=_histogram(row.waits),
        runs=_histogram(row.runs),
    )


def _line(histogram: Mapping[int, int]) -> list[int]:
    if not histogram:
        return []
    first, last = min(histogram), max(histogram)
    return [first, *(min(histogram.get(key, 0), _FULL) for key in range(first, last + 1))]


def _histogram(line: list[int]) -> dict[int, int]:
    return {key: n for key, n in enumerate(line[1:], line[0]) if n} if line else {}
