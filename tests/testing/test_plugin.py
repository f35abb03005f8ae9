"""The pytest plugin, as a suite of somebody else meets it."""

import subprocess
import sys
from importlib.metadata import entry_points

import pytest

pytest_plugins = ["pytester"]

SHOP = """
    from windlass import Windlass

    app = Windlass("postgresql://nobody@127.0.0.1:1/never-reached")
    sent = []

    @app.task(name="mail.send")
    async def send(to: str) -> None:
        sent.append(to)
"""
# Where the package was installed with its entry point, pytest knows the plugin by that.
PLUGIN = "windlass" if entry_points(group="pytest11", name="windlass") else "pytest_windlass"


@pytest.fixture
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A suite of tests beside a module `shop`."""
    monkeypatch.syspath_prepend(pytester.path)
    pytester.makepyfile(shop=SHOP)
    return pytester


def run(suite: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    if "no:asyncio" not in arguments:
        arguments += ("-o", "asyncio_default_fixture_loop_scope=function")
    return suite.runpytest_inprocess(
        "-p", PLUGIN, "-p", "no:schemathesis", "-p", "no:cacheprovider", "--strict-markers", *arguments
    )


def test_the_fixture_keeps_jobs_in_memory_and_runs_them(suite: pytest.Pytester) -> None:
    suite.makeini("[pytest]\nwindlass_app = shop:app")
    suite.makepyfile(
        """
        import pytest
        from shop import app, send, sent
        from windlass.testing import assert_enqueued, assert_not_enqueued

        def test_it_waits(jobs):
            send.enqueue("ada")
            assert sent == []
            assert_enqueued(app, send, "ada")
            assert len(jobs.drain().succeeded) == 1
            assert sent == ["ada"]

        def test_the_next_one_knows_nothing_of_it(jobs):
            assert_not_enqueued(app)

        @pytest.mark.windlass(inline=True)
        def test_it_runs_at_once(jobs):
            send.enqueue("bob")
            assert sent[-1] == "bob"
        """
    )
    run(suite).assert_outcomes(passed=3)


def test_the_app_may_come_from_a_fixture(suite: pytest.Pytester) -> None:
    suite.makeconftest(
        """
        import pytest

        @pytest.fixture
        def windlass_app():
            from shop import app
            return app
        """
    )
    suite.makepyfile("def test_it(jobs, windlass_app): assert windlass_app._test_mode is jobs")
    run(suite).assert_outcomes(passed=1)


def test_it_works_with_asyncio(suite: pytest.Pytester) -> None:
    suite.makeini("[pytest]\nwindlass_app = shop\nasyncio_mode = auto")
    suite.makepyfile(
        """
        from shop import send, sent

        async def test_it(jobs):
            await send.aenqueue("ada")
            await jobs.adrain()
            assert sent == ["ada"]
        """
    )
    run(suite).assert_outcomes(passed=1)


def test_it_works_with_anyio(suite: pytest.Pytester) -> None:
    suite.makeini("[pytest]\nwindlass_app = shop:app")
    suite.makepyfile(
        """
        import pytest
        from shop import send, sent

        @pytest.fixture
        def anyio_backend():
            return "asyncio"

        @pytest.mark.anyio
        async def test_it(jobs):
            await send.aenqueue("ada")
            await jobs.adrain()
            assert sent == ["ada"]
        """
    )
    run(suite, "-p", "no:asyncio").assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("ini", "text"),
    [
        ("", "*no app to test: write windlass_app*"),
        ("windlass_app = nowhere:app", "*windlass_app = 'nowhere:app': there is no module nowhere*"),
        ("windlass_app = shop:sent", "*windlass_app = 'shop:sent': shop:sent is list, not a Windlass app*"),
    ],
)
def test_an_app_that_is_not_there_is_told_in_a_line(suite: pytest.Pytester, ini: str, text: str) -> None:
    suite.makeini(f"[pytest]\n{ini}")
    suite.makepyfile("def test_it(jobs): pass")
    result = run(suite)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([text])


def test_a_failed_assertion_shows_what_there_was(suite: pytest.Pytester) -> None:
    suite.makeini("[pytest]\nwindlass_app = shop:app")
    suite.makepyfile(
        """
        from shop import app, send
        from windlass.testing import assert_enqueued

        def test_it(jobs):
            send.enqueue("ada")
            assert_enqueued(app, send, "bob")
        """
    )
    result = run(suite)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "*expected one job of mail.send('bob'), found 0; enqueued:*",
            '*mail.send {"to":"ada"} on default, ready*',
        ]
    )


def test_a_suite_that_does_not_ask_for_it_imports_nothing() -> None:
    code = "import sys, pytest_windlass; assert 'windlass' not in sys.modules, 'it imports Windlass'"
    subprocess.run([sys.executable, "-c", code], check=True)
