"""How the house stands: `python -m tests.house`. Figures and the aims that were set for them; `test_sizes`
has the bounds that hold now."""

import sys

from tests.house import layers, sizes, walk


def rows() -> list[tuple[str, str, str]]:
    """Each figure, what it is, and what was wanted."""
    found = layers.imports()
    many, folder = sizes.largest_folder()
    above = sizes.superclasses()
    modules = walk.passed()
    return [
        ("files that name a passive setting of a queue", str(sizes.files_that_name()), "≤ 4"),
        ("files that name an option of a job, uses and all", str(sizes.files_that_name(sizes.OPTION)), "≤ 6"),
        ("modules that a job passes on PostgreSQL", str(len(modules)), "≤ 15"),
        ("most superclasses of a class", f"{above[0][0]} ({above[0][1]})", "≤ 2"),
        ("files in the largest folder", f"{many} ({folder})", "≤ 25"),
        ("import cycles", str(len(layers.cycles(found))), "0"),
        ("imports that look up", str(len(layers.upward(found))), "0"),
        ("imports in worker/ that look up", str(len(layers.upward_in_worker(found))), "0"),
        ("docstrings that are riddles", str(len(sizes.riddles())), "0"),
        ("lines of Python, without contrib/ and demo/", f"{sizes.lines_of_code():,}", "≤ 38,000"),
    ]


def main() -> int:
    """Print them."""
    lines = [f"{what:48} {figure:48} {wanted}" for what, figure, wanted in rows()]
    print("\n".join(lines))  # noqa: T201 - this module is a command
    return 0


if __name__ == "__main__":
    sys.exit(main())
