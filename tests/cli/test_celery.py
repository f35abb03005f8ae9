"""What Celery's users type is answered with our words for it."""

import pytest

from tests.cli.kit import windlass
from windlass.cli import VERBS, celery
from windlass.cli.worker import worker


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (["-A", "shop", "worker"], "No such option '-A': the app is named by its module and attribute: "
         "`windlass worker shop.tasks:app`"),
        (["worker", "-A", "shop"], "No such option '-A': the app is named by its module and attribute"),
        (["worker", "shop:app", "-c", "4"], "No such option '-c': slots are counted for each queue"),
        (["worker", "shop:app", "--concurrency", "4"], "`-q mail=8`"),
        (["worker", "shop:app", "-c4"], "No such option '-c': slots are counted for each queue"),
        (["worker", "shop:app", "-l", "info"], "No such option '-l': it is --log-level"),
        (["--app", "shop", "worker"], "No such option '--app': the app is named by its module and attribute"),
        (["worker", "--app=shop"], "No such option '--app': the app is named by its module and attribute"),
        (["worker", "shop:app", "--soft-time-limit=60"], "the task says so: `@app.task(timeout='5m')`"),
        (["beat"], "No such command 'beat': there is no beat process: workers fire the schedules themselves"),
        (["flower"], "No such command 'flower': it is `windlass web`"),
        (["quues"], "No such command 'quues'; did you mean queues?"),
        (["worker", "shop:app", "--frob"], "No such option '--frob'."),
    ],
)  # fmt: skip
def test_celerys_words_are_answered_in_ours(typed: list[str], said: str) -> None:
    result = windlass(*typed)
    assert result.exit_code == 2
    assert said in " ".join(result.stderr.split())


def test_none_of_celerys_words_is_ours() -> None:
    """Else its answer would never be given."""
    assert not celery._COMMANDS.keys() & VERBS.keys()
    ours = {each for option in worker.params for each in option.opts}
    assert not (celery._OPTIONS.keys() | celery._LONG.keys()) & ours
