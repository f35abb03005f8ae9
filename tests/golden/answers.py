"""Answers as transcripts have them: without what varies from run to run, and without what a reader need not
see twice. JSON that fits into a line is in one line; icons are the hash of what they draw."""

import json
import re
from collections.abc import Iterator, Sequence
from difflib import unified_diff
from hashlib import sha256
from itertools import groupby
from typing import Any, Final

import httpx

from windlass import __version__

WIDE: Final = 105
SHORT: Final = 1000
"""A page whose content has fewer characters is always shown whole."""
HEADERS: Final = ("location", "allow", "retry-after", "www-authenticate")
_VARIES: Final = re.compile(
    rf"\b((?:SQLite|Python|apsw|asyncpg|uvloop) )(?:[\d.]+|missing)|()\b{re.escape(__version__)}\b"
    r"|(statements/s of |store_latency_seconds )[\de.-]+|()(?<=\?v=)[0-9a-f]{10}"
    r'|("bytes": |store_bytes )[\d.]+|()[\d.]+(?= KiB)'
)
"""Versions of what is installed, times that were measured, marks of the content of static files, and sizes of
the store."""
_ICON: Final = re.compile(r'<svg width="\d+".*?aria-hidden="true">(.*?)</svg>', re.DOTALL)
_TIME: Final = re.compile(r'<time datetime="([\d-]+)T([\d:]+)\.000Z">\1 \2 UTC</time>')
_MINUTES: Final = re.compile(r"(?<=&#34;at&#34;:\[)(\d+,).*?(?=\d+\])")
_SAME: Final = re.compile(r"((?:0\.0|null),)\1{3,}")
_BLOCK_END: Final = re.compile(r"</(?:tr|li|label|dd|div|form)>(?=<)")
_MAIN: Final = re.compile(r"(<main\b.*</main>)", re.DOTALL)


def steady(text: str) -> str:
    """A text without what varies."""
    return _VARIES.sub(lambda found: f"{found[found.lastindex or 0]}…", text)


def laid_out(value: Any, indent: int = 0) -> str:
    """A value as JSON; keys keep their order."""
    text = json.dumps(value, ensure_ascii=False)
    if len(text) + indent <= WIDE or not isinstance(value, dict | list):
        return text
    deeper = indent + 2
    if isinstance(value, dict):
        inner = [f"{json.dumps(name)}: {laid_out(each, deeper)}" for name, each in value.items()]
    else:
        inner = [laid_out(each, deeper) for each in value]
    begin, end = "{}" if isinstance(value, dict) else "[]"
    return f"{begin}\n" + ",\n".join(" " * deeper + each for each in inner) + f"\n{' ' * indent}{end}"


def printed(output: str) -> str:
    """The output of a command. A JSON document is laid out anew if it is indented as all of them are, or all
    in one line."""
    try:
        value = json.loads(output)
    except json.JSONDecodeError:
        return output
    known = (f"{json.dumps(value, indent=2)}\n", f"{json.dumps(value)}\n")
    return f"{laid_out(value)}\n" if output in known else output


class Pages:
    """The pages of one transcript. Each is without the lines around its content that all have in common."""

    def __init__(self, overview: str = "") -> None:
        self._frame = frozenset(_MAIN.sub("", overview).split("\n"))
        self._first: dict[str, tuple[str, list[str]]] = {}

    def shown(self, path: str, answer: httpx.Response) -> str:
        """The answer to a request: its status, some of its headers, and its body."""
        kind, body = answer.headers.get("content-type", ""), answer.text
        if kind.startswith("application/json"):
            body = laid_out(answer.json())
        elif kind.startswith("text/html"):
            body = self._shortened(path.partition("?")[0], broken_up(body))
        headers = [f"{name}: {answer.headers[name]}" for name in HEADERS if name in answer.headers]
        return "\n".join([f"{answer.status_code} {kind}".strip(), *headers, body])

    def _shortened(self, path: str, page: str) -> str:
        """The page without the frame; or how it differs from the first one at its path, or from the first of
        its kind, where that is shorter."""
        if "<main id=" not in page:
            return page
        head, main, tail = _MAIN.split(page)
        own = [[line for line in each.split("\n") if line not in self._frame] for each in (head, tail)]
        told = ["\n".join([*own[0], main, *own[1]])]
        if len(main) < SHORT:
            return told[0]
        lines = page.split("\n")
        for key in (path, f"{path.rpartition('/')[0]}/…"):
            first, before = self._first.setdefault(key, (path, lines))
            if before is not lines:
                told.append("\n".join([f"as {first} was at first, but:", *_differences(before, lines)]))
        return min(told, key=len)


def broken_up(page: str) -> str:
    """A page with a line for each block, and short where charts repeat themselves."""
    page = _ICON.sub(lambda icon: f"<svg {sha256(icon[1].encode()).hexdigest()[:6]}>", page)
    page = _SAME.sub(lambda run: f"{run[1]} {len(run[0]) // len(run[1])} times, ", page)
    page = _MINUTES.sub(r"\1…,", _TIME.sub(r"<time \1T\2Z>", page))
    return steady(_BLOCK_END.sub("\\g<0>\n", page))


def _differences(before: Sequence[str], now: Sequence[str]) -> Iterator[str]:
    """The lines that have come, and the first of those that have gone from a place."""
    for gone, lines in groupby(
        [*unified_diff(before, now, n=0, lineterm="")][2:], lambda line: line[0] == "-"
    ):
        told = [line for line in lines if not line.startswith("@@")]
        yield from told[:2] if gone else told
        if gone and told[2:]:
            yield f"-… and {len(told) - 2} lines more"
