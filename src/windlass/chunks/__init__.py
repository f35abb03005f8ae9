"""Chunked jobs: heavy work that is cut into parts, each of which goes on where it stopped.

A **splitter** (`ndjson`, `ranges`, `items`) plans the parts of a job and reads their records; `parts` is what
a handler sees of one, `batches` how it is read, `task` how such a task is registered and run.
"""

from windlass.chunks.items import Items, Planner, planner
from windlass.chunks.ndjson import NDJSON
from windlass.chunks.ranges import Ranges, Shards
from windlass.chunks.splitter import Reader, Slice, Splitter

__all__ = ["NDJSON", "Items", "Planner", "Ranges", "Reader", "Shards", "Slice", "Splitter", "planner"]
