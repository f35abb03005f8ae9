"""The rival: a plain loop over the lines of a file, in a process of its own.

    python -m bench.engine.chunks.plain FILE msgspec

It prints what it took, the start of the interpreter not included. The parser is the one that Windlass uses,
so that the two differ in everything but the parsing; `json` is there for those who would have used that.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec

from bench.servers import ROOT
from windlass.errors import WindlassError

PARSERS: Final[dict[str, Callable[[bytes], Any]]] = {"msgspec": msgspec.json.decode, "json": json.loads}


class Loop(msgspec.Struct, frozen=True):
    """One pass over the file."""

    seconds: float
    cpu: float
    records: int


async def loop_elsewhere(path: Path, parser: str) -> Loop:
    """Run the loop in a fresh interpreter."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", __name__, str(path), parser), cwd=ROOT, stdout=subprocess.PIPE
    )
    try:
        output, _ = await process.communicate()
    except asyncio.CancelledError:
        process.kill()
        await process.wait()
        raise
    if process.returncode:
        raise WindlassError(f"the plain loop ended with {process.returncode}; its own words are above")
    return msgspec.json.decode(output, type=Loop)


def loop(path: str, decode: Callable[[bytes], Any]) -> Loop:
    """Parse every line."""
    records = 0
    began, cpu = time.perf_counter(), time.process_time()
    with open(path, "rb") as file:
        for line in file:
            decode(line)
            records += 1
    return Loop(time.perf_counter() - began, time.process_time() - cpu, records)


if __name__ == "__main__":
    sys.stdout.buffer.write(msgspec.json.encode(loop(sys.argv[1], PARSERS[sys.argv[2]])))
