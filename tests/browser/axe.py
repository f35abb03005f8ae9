"""Asks axe-core what is wrong with a page for those who cannot see it, or see it badly."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import Final

from playwright.async_api import Page

RULES: Final = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice")
LOOKS: Final = ("color-contrast", "link-in-text-block")
"""The rules that a theme can break."""
ASK: Final = """async (rules) => {
  const found = await axe.run(document, { resultTypes: ["violations"], runOnly: rules });
  return found.violations.flatMap((rule) => rule.nodes.map((node) =>
    `${rule.impact} ${rule.id} at ${node.target.join(" ")}: ${node.failureSummary}`));
}"""


@cache
def _source() -> str:
    return (resources.files("axe_playwright_python") / "axe.min.js").read_text("utf-8")


async def violations(page: Page, rules: Sequence[str] = RULES) -> list[str]:
    """What it found, one line each, with where it is and what to do."""
    if not await page.evaluate("'axe' in window"):
        await page.evaluate(_source())
    found: list[str] = await page.evaluate(ASK, list(rules))
    return [f"{page.url}: {each}" for each in found]
