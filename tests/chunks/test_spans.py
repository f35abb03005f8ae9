"""What parts cover [P4]: one shape for each splitter, the same for the handler and for whoever asks the
store, and as the guide prints it."""

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from windlass import NDJSON, Items, Part, Ranges, Shards, Windlass, planner
from windlass.chunks import Splitter

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "chunked-jobs.md"


@planner
def months(path: str) -> list[dict[str, int]]:
    return [{"month": 1}, {"month": 2}]


SPLITTERS: dict[str, Splitter] = {
    "NDJSON": NDJSON("8B"),
    "Ranges": Ranges((5, 9), size=3),
    "Shards": Shards(5, per_part=2),
    "Items": Items(["a", "b", "c"], size=2),
    "a function": months,
}


@pytest.mark.parametrize("name", SPLITTERS)
def test_p4_a_span_has_one_shape(any_app: Windlass, tmp_path: Path, name: str) -> None:
    path = tmp_path / "dump.ndjson"
    path.write_bytes(b"[1]\n" * 5)
    seen: dict[int, Any] = {}

    @any_app.chunked(split=SPLITTERS[name], name="load")
    async def load(part: Part, path: str) -> None:
        seen[part.index] = part.span

    job = load.enqueue(str(path))
    any_app.run_until_idle()
    stamp = {"size": 20, "mtime_ns": path.stat().st_mtime_ns, "etag": None}
    expected: dict[str, list[Any]] = {
        "NDJSON": [{"start": start, "end": min(start + 8, 20), "stamp": stamp} for start in (0, 8, 16)],
        "Ranges": [[5, 8], [8, 9]],
        "Shards": [[0, 2], [2, 4], [4, 5]],
        "Items": [["a", "b"], ["c"]],
        "a function": [{"month": 1}, {"month": 2}],
    }
    assert [seen[index] for index in sorted(seen)] == expected[name]
    assert [part.span for part in any_app.parent(job.id).parts()] == expected[name]


def test_p4_the_guide_prints_the_shapes() -> None:
    text = GUIDE.read_text(encoding="utf-8")
    section = text.partition("\n### What `part.span` is\n")[2].partition("\n##")[0]
    shapes = {
        row[0].strip("`").partition("(")[0]: msgspec.json.decode(row[1])
        for row in re.findall(r"^\| (\S+|a function) \| `(.+?)` \|", section, re.MULTILINE)
    }
    assert shapes.keys() == SPLITTERS.keys()
    assert shapes["NDJSON"].keys() == {"start", "end", "stamp"}
    assert shapes["NDJSON"]["stamp"].keys() == {"size", "mtime_ns", "etag"}
    assert [len(shapes[name]) for name in ("Ranges", "Shards")] == [2, 2]
    assert isinstance(shapes["Items"], list)
