"""Every tag that is cited anywhere is explained in `docs/reference/behaviours.md`, and proved by a test."""

from collections import Counter

from tests.docs.pages import name_of
from tests.docs.reference import FOLDER
from tests.docs.reference.behaviours import explained
from tests.docs.tags import ODD, citations, cited, files, proofs

PAGE = FOLDER / "behaviours.md"
EXPLAINED = [tag for tag, _ in explained(PAGE.read_text(encoding="utf-8"))]


def test_every_tag_that_is_cited_is_explained() -> None:
    strange = {
        tag: sorted(name_of(path) for path in found)
        for tag, found in citations().items()
        if tag not in EXPLAINED
    }
    assert not strange, f"add a line to {name_of(PAGE)}, or cite another tag"


def test_no_tag_is_explained_twice() -> None:
    assert [tag for tag, times in Counter(EXPLAINED).items() if times > 1] == []


def test_every_behaviour_has_a_test_that_names_it() -> None:
    assert [tag for tag in EXPLAINED if not proofs(tag)] == []


def test_tags_are_cited_in_one_form() -> None:
    odd = {name_of(path): found for path, text in files() if (found := ODD.findall(text))}
    assert not odd, "write each tag in brackets of its own, on one line"


def test_how_tags_are_read() -> None:
    """They are put together here, so that they are no citations themselves."""
    name, tag, fault, rule = "test_c5", "C5", "fault", "rule"
    read = cited(f"def {name}_{fault}_27_x(): ... [{tag}] and [{rule} 3]")
    assert read == {tag: 2, f"{fault} 27": 1, f"{rule} 3": 1}
    assert not cited("def test_e2e(): jobs[0], names['C5'], [x1]")
    for odd in (f"[{tag}, C6]", f"[{fault} 5-7]", f"Two {fault}s 3", f"as {rule} 7 says", f"[{fault}\n5]"):
        assert ODD.search(odd), odd
