"""Notes what goes wrong in a page: errors in its console, scripts that fail, dialogs, what the CSP
refused."""

from __future__ import annotations

from dataclasses import dataclass, field

from playwright.async_api import ConsoleMessage, Dialog, Page

REPORT = """
addEventListener("securitypolicyviolation", (event) => {
  console.error(`refused by the CSP: ${event.violatedDirective} ${event.blockedURI}`);
});
"""


@dataclass
class Trouble:
    """What went wrong so far."""

    found: list[str] = field(default_factory=list)

    def check(self) -> None:
        """Fail where anything did."""
        assert not self.found, self.found


async def watch(page: Page, trouble: Trouble) -> None:
    """Note what goes wrong in this page from now on."""

    def console(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            trouble.found.append(f"{page.url}: {message.type}: {message.text}")

    async def dialog(asked: Dialog) -> None:
        trouble.found.append(f"{page.url}: a dialog says {asked.message!r}")
        await asked.dismiss()

    page.on("console", console)
    page.on("pageerror", lambda error: trouble.found.append(f"{page.url}: {error}"))
    page.on("dialog", dialog)
    await page.add_init_script(REPORT)
