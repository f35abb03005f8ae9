"""Django's own tests of its task backends, run against ours: `python -m tests.contrib.django.upstream`, with
Django 6 or newer installed, and pip.

They come in Django's source package, which is downloaded for the version that is installed (the package
django-tasks ships no tests). In a copy of them our backends stand where Django's dummy and immediate ones do;
`NOT_OURS` says of each test that cannot hold why. Exit status 0: all others passed.
"""

from typing import Final

NOT_OURS: Final = {
    "test_cannot_get_result": "results can be looked up",
    "test_cannot_refresh_result": "results can be refreshed",
    "test_cannot_pass_run_after": "run_after is supported",
    "test_doesnt_wait_until_transaction_commit_by_default": "jobs are enqueued with the commit, by design",
    "test_throws_keyboard_interrupt": "a task that raises it has failed; its worker goes on",
    "test_complex_return_value": "a value that is not JSON ends the job as windlass.Dead, with the reason",
    "DummyBackendTestCase.test_refresh_result": "it changes the backend's copy; ours is in the store",
    "DummyBackendTestCase.test_refresh_result_async": "it changes the backend's copy; ours is in the store",
}
