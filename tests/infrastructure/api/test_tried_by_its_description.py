"""The service tried by its own description: what it answers is what the document says."""

import os

import hypothesis
import pytest
import schemathesis
from hypothesis import HealthCheck
from schemathesis.checks import load_all_checks
from schemathesis.core.failures import FailureGroup

from tests.infrastructure.api.conftest import open_tables, play

EXAMPLES_MAX = int(os.environ.get("PUNTO_FUZZ", "6"))
"""How many requests each operation gets; `PUNTO_FUZZ=200` makes some ten thousand."""

# They end with the connection, or take no JSON.
STREAMS = ["follow_events", "give_commands"]

load_all_checks()
from schemathesis.specs.openapi.checks import (  # noqa: E402 - loaded by the line above
    content_type_conformance,
    negative_data_rejection,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)

CHECKS = [
    schemathesis.checks.not_a_server_error,
    content_type_conformance,
    negative_data_rejection,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
]


@pytest.fixture
def described(api):
    open_tables(api)
    play(api, "R1")
    schema = schemathesis.openapi.from_url(f"{api.url}/v1/openapi.json")
    return schema.exclude(operation_id=STREAMS)


@pytest.fixture
def settings():
    return hypothesis.settings(
        max_examples=EXAMPLES_MAX,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )


def test_no_request_finds_an_answer_that_is_not_documented(described, settings):
    found = {}
    for operation in described.get_all_operations():
        operation = operation.ok()

        @settings
        @hypothesis.given(case=operation.as_strategy())
        def try_it(case):
            response = case.call(timeout=30)
            try:
                case.validate_response(response, checks=CHECKS)
            except FailureGroup as failures:
                for failure in failures.exceptions:
                    found.setdefault(f"{case.method} {case.path}: {failure.title}", str(failure))

        try_it()
    assert not found, "\n\n".join(f"{where}\n{what}" for where, what in found.items())


def test_no_sequence_of_requests_finds_one_either(described, settings):
    class Sequences(described.as_state_machine()):
        def validate_response(self, response, case, **_):
            case.validate_response(response, checks=CHECKS)

    Sequences.run(settings=hypothesis.settings(settings, stateful_step_count=8))
