"""Whatever is sent to the API, it answers with what its document says, and never with a 500."""

from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import response_schema_conformance, status_code_conformance

from tests.web.kit import OPERATE, bearer
from windlass import Windlass
from windlass.web.api.openapi import document
from windlass.web.api.routing import ENDPOINTS
from windlass.web.app import make_web

CHECKS = [not_a_server_error, status_code_conformance, response_schema_conformance]
HEADERS = {**bearer(OPERATE), "host": "localhost"}
KNOWN = {"id": "17592186044417", "name": "default"}
"""What is there: the first job of the first queue. Half of all requests are about it."""


@pytest.fixture(scope="module")
def api() -> Any:
    app = Windlass("sqlite:///:memory:")
    app.enqueue("mail.send")
    schema = schemathesis.openapi.from_dict(document(ENDPOINTS))
    schema.app = make_web(app, operate=[OPERATE])
    return schema


def cases(operation: Any) -> st.SearchStrategy[Any]:
    """Requests as they should be, and as they should not."""
    names = {name: KNOWN[name] for name in KNOWN if f"{{{name}}}" in operation.path}
    ways = [operation.as_strategy(mode) for mode in GenerationMode]
    if names:
        ways += [operation.as_strategy(GenerationMode.POSITIVE, path_parameters=names)] * 2
    return st.one_of(ways)


@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=lambda each: f"{each.method} {each.path}")
def test_no_request_makes_it_stumble(api: Any, endpoint: Any) -> None:
    operation = api[f"/api{endpoint.path}"][endpoint.method]

    @settings(
        max_examples=12, phases=[Phase.generate], suppress_health_check=list(HealthCheck), derandomize=True
    )
    @given(case=cases(operation))
    def send(case: Any) -> None:
        case.call_and_validate(checks=CHECKS, headers=HEADERS)

    send()
