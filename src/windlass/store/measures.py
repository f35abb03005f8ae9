"""The rules by which every store keeps reports [M1] [M2]: for how long, how much, and in which form.

Reports are read with care: whoever may report may write anything, and one batch that cannot be counted
would stop every rollup after it.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Final

import msgspec

from windlass.core.names import is_name
from windlass.core.read_errors import READ_ERRORS
from windlass.core.rollup import COUNTS, GAUGES, KEPT, Gauges, Reading, Sample, Subject
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
_gauges = msgspec.json.Decoder(list[Gauges]).decode

MAX_LABEL: Final = 255
"""Characters of the name of a worker or a host: it is part of a key."""


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


def cutoffs(now: float, kept: Mapping[int, float] = KEPT) -> dict[int, int]:
    """By span: rows of charts that begin before this have outlived their time."""
    return {span: int(now - keep) for span, keep in kept.items()}


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


def read_gauges(text: str | None) -> list[Gauges]:
    """The gauges of one report, if it has any; those that cannot be added up are dropped."""
    try:
        return [] if text is None else countable_gauges(_gauges(text))
    except READ_ERRORS as error:
        logger.warning("the gauges of a report cannot be read, so they are dropped: %s", error)
        return []


def countable_gauges(given: Sequence[Gauges]) -> list[Gauges]:
    """Return the gauges that can be added up: of a time, a name and gauges that there can be."""
    good = [gauges for gauges in given if _is_gauges(gauges)]
    if len(good) < len(given):
        message = "%d of %d gauges of a report have an invalid time, name or number, so they are dropped"
        logger.warning(message, len(given) - len(good), len(given))
    return good


def _is_gauges(gauges: Gauges) -> bool:
    readings = gauges.values.values()
    return (
        0 <= gauges.at < _LATEST
        and (gauges.name == "") == (gauges.of == "store")
        and all(len(name) <= MAX_LABEL and "\0" not in name for name in (gauges.name, gauges.host))
        and gauges.values.keys() <= GAUGES.keys()
        and all(min(each.total, each.n - 1, each.most) >= 0 for each in readings)
        and all(max(each.total, each.n, each.most) < _MAX_EXACT for each in readings)
        and all(key in BUCKETS and 0 <= n < _MAX_EXACT for key, n in gauges.calls.items())
    )


def label_text(text: str) -> str:
    """A label or the name of a host as a key can have it: whoever asks for its gauges must ask for this."""
    return _kept_text(text)[:MAX_LABEL]


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


class _PackedGauges(msgspec.Struct, array_like=True):
    values: dict[str, Reading]
    calls: list[int]


_unpack_gauges = msgspec.msgpack.Decoder(_PackedGauges).decode


def pack_gauges(gauges: Gauges) -> bytes:
    """Encode gauges as a row keeps them."""
    values = {
        name: Reading(min(each.total, _FULL), min(each.n, _FULL), each.most)
        for name, each in gauges.values.items()
    }
    return _pack(_PackedGauges(values, _line(gauges.calls)))


def unpack_gauges(packed: bytes, at: int, of: Subject, name: str) -> Gauges:
    """The row of this time. Raises msgspec.MsgspecError for what nobody has packed."""
    row = _unpack_gauges(packed)
    return Gauges(at=at, of=of, name=name, values=row.values, calls=_histogram(row.calls))
