"""Names that somebody has misspelt are asked about, where there is one like it."""

from collections.abc import Callable
from typing import Any

import pytest

from windlass import Windlass
from windlass.core.names import did_you_mean, meant_or_known


def test_a_name_is_meant_where_it_is_like_a_known_one() -> None:
    known = ["mail", "imports", "default"]
    assert did_you_mean("mial", known) == "; did you mean mail?"
    assert did_you_mean("reports", known) == ""
    assert meant_or_known("import", known) == "; did you mean imports?"
    assert meant_or_known("x", known) == "; known: mail, imports, default"


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda app: app.task(quue="mail")(print), "a task has no option quue; did you mean queue?"),
        (lambda app: app.named("a").using(dealy=3), "there is no option 'dealy'; did you mean delay?"),
        (lambda app: app.queue("mail").set(max_worker=3), "called max_worker; did you mean max_workers?"),
        (lambda app: app.queue("mail").set(colour=3), "no setting called colour; known: backoff, "),
        (lambda app: app.schedules.pause("nigtly"), "there is no schedule 'nigtly'; did you mean nightly?"),
    ],
)
def test_what_is_misspelt_is_asked_about(app: Windlass, wrong: Callable[[Any], object], said: str) -> None:
    app.schedules.add("nightly", "0 3 * * *", task="a")
    with pytest.raises(Exception, match=said.replace("?", r"\?")):
        wrong(app)
