"""The plots of a run. Bars are ordered by what they show; Windlass bears a colour of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from bench.peers.findings import BEFORE, FIGURES, Figure, figure, series, shown, value

OURS, LIBRARY, LIMIT = "#c2410c", "#64748b", "#cbd5e1"
STYLE: Final[dict[Any, Any]] = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "savefig.dpi": 150,
}
OVERVIEW: Final = (
    ("drain_one", "rate"),
    ("pinned", "last_third"),
    ("keyed", "rate"),
    ("durable_steps", "rate"),
    ("bulk", "bulk"),
    ("pick_up", "p99_ms"),
)


def draw(folder: Path, found: dict[str, Any]) -> list[tuple[str, str]]:
    """Write every plot that the run has figures for; their file names and what they show."""
    drawn = []
    with plt.rc_context(STYLE):
        if overview(folder / "overview.png", found):
            drawn.append(("overview.png", "Windlass and its peers at a glance"))
        for each in FIGURES:
            name = f"{each.scenario}-{each.key}.png"
            size = len(_figures(found, each))
            if size > 1:
                plot, axes = plt.subplots(figsize=(7.5, 0.6 + 0.32 * size))
                bars(axes, found, each)
                _save(plot, folder / name)
                drawn.append((name, each.title))
        for family, key, title in (
            ("backlog", "rate", "Jobs a second of one process, by jobs waiting"),
            ("crowd", "rate", "Jobs a second, by worker processes"),
        ):
            if lines(folder / f"{family}.png", found, family, key, title):
                drawn.append((f"{family}.png", title))
        if decline(folder / "pinned.png", found):
            drawn.append(("pinned.png", "With a pinned snapshot: jobs a second in each third"))
    return drawn


def overview(path: Path, found: dict[str, Any]) -> bool:
    """Six figures in one picture, without what is there for a comparison with an earlier commit."""
    found = {**found, "peers": {name: peer for name, peer in found["peers"].items() if name != BEFORE}}
    chosen = [each for each in (figure(*names) for names in OVERVIEW) if len(_figures(found, each)) > 1]
    if len(chosen) < len(OVERVIEW):
        return False
    plot, grid = plt.subplots(3, 2, figsize=(12, 10.5), height_ratios=(3, 2, 3))
    for axes, each in zip(grid.flat, chosen, strict=True):
        bars(axes, found, each)
    _save(plot, path)
    return True


def bars(axes: Axes, found: dict[str, Any], each: Figure) -> None:
    """One figure of all peers, the best on top."""
    figures = _figures(found, each)
    ordered = sorted(figures, key=figures.__getitem__, reverse=not each.more_is_better)
    peers = found["peers"]
    names = [f"{peers[name]['title']} · {peers[name]['store']}" for name in ordered]
    colours = [_colour(name, peers[name]) for name in ordered]
    values = [figures[name] for name in ordered]
    axes.barh(names, [max(number, 1e-3) for number in values], color=colours)
    axes.set_xscale("symlog" if min(values) <= 0 else "log")
    for place, number in enumerate(values):
        axes.annotate(f" {shown(number)}", (max(number, 1e-3), place), va="center", fontsize=8)
    axes.margins(x=0.15)
    better = "more" if each.more_is_better else "less"
    unit = f", {each.unit}" if each.unit else ""
    # Its own line under the title: a long one would be cut off at the edge of the picture.
    axes.set_title(f"{each.title}{unit}\n{better} is better", loc="left", fontsize=8, x=0, wrap=True)


def lines(path: Path, found: dict[str, Any], family: str, key: str, title: str) -> bool:
    """A figure over growing sizes."""
    known = {name: points for name in found["peers"] if len(points := series(found, family, key, name)) > 1}
    if not known:
        return False
    plot, axes = plt.subplots(figsize=(7.5, 4))
    for name, points in known.items():
        peer = found["peers"][name]
        sizes, values = zip(*points, strict=True)
        wide, colour = (2.5, OURS) if name == "windlass" else (1.2, None)
        axes.plot(sizes, values, marker="o", markersize=4, linewidth=wide, label=peer["title"], color=colour)
    axes.set_xscale("log", base=10 if family == "backlog" else 2)
    axes.set_yscale("log")
    axes.legend(fontsize=8, frameon=False)
    axes.set_title(title, loc="left", fontsize=9)
    _save(plot, path)
    return True


def decline(path: Path, found: dict[str, Any]) -> bool:
    """First, second and last third under a pinned snapshot."""
    rounds = found["scenarios"].get("pinned", {})
    known = {name: [each["thirds"] for each in kept if "thirds" in each] for name, kept in rounds.items()}
    known = {name: kept for name, kept in known.items() if kept}
    if not known:
        return False
    plot, axes = plt.subplots(figsize=(7.5, 4))
    for name, kept in known.items():
        means = [sum(each[third] for each in kept) / len(kept) for third in range(3)]
        wide, colour = (2.5, OURS) if name == "windlass" else (1.2, None)
        title = found["peers"][name]["title"]
        axes.plot(("first", "second", "last"), means, marker="o", linewidth=wide, label=title, color=colour)
    axes.set_yscale("log")
    axes.legend(fontsize=8, frameon=False)
    axes.set_title("Jobs a second in each third of the time, a snapshot held open", loc="left", fontsize=9)
    _save(plot, path)
    return True


def _figures(found: dict[str, Any], each: Figure) -> dict[str, float]:
    values = {name: value(found, each.scenario, each.key, name) for name in found["peers"]}
    return {name: number for name, number in values.items() if number is not None}


def _colour(name: str, peer: dict[str, Any]) -> str:
    if name.startswith("windlass"):
        return OURS
    return LIBRARY if peer["library"] else LIMIT


def _save(plot: Any, path: Path) -> None:
    plot.tight_layout()
    plot.savefig(path)
    plt.close(plot)
