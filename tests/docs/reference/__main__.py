"""Write the generated parts of `docs/reference/` anew: `python -m tests.docs.reference`."""

import sys

from tests.docs.reference import ROOT, fresh, pages


def main() -> None:
    """Write the pages that are stale, and name them."""
    for page in pages():
        before = page.read_text(encoding="utf-8")
        after = fresh(before)
        if after != before:
            page.write_text(after, encoding="utf-8")
            sys.stdout.write(f"{page.relative_to(ROOT)}\n")


if __name__ == "__main__":
    main()
