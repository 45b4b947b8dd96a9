"""The OpenAPI document: whole, with units, and true of what the service does."""

import pytest

from infrastructure.api.application import make_application
from infrastructure.api.examples import EXAMPLES
from infrastructure.api.problems import STATUS
from infrastructure.api.service import Service
from infrastructure.api.writes import WRITES
from infrastructure.cli.ledger import casino_on
from infrastructure.commands.contract import COMMANDS

# Names of single bets within the rules, each of which holds the same two limits or odds.
OF_BETS = {
    "player", "banker", "tie", "player_pair", "banker_pair", "either_pair", "perfect_pair",
    "dragon7", "panda8", "lucky6", "small", "big", "one", "both", "two_cards", "three_cards",
}  # fmt: skip


@pytest.fixture
def document(database):
    with casino_on(database) as casino:
        yield make_application(Service(database, casino)).openapi()


def fields_of(part, place=""):
    """Every field of the document's schemas: where it stands, its name and its schema."""
    if isinstance(part, list):
        for each in part:
            yield from fields_of(each, place)
    if isinstance(part, dict):
        properties = part.get("properties")
        for name, schema in properties.items() if isinstance(properties, dict) else ():
            yield f"{place}.{name}", name, schema
        for name, each in part.items():
            yield from fields_of(each, f"{place}.{name}")


def test_every_field_is_described_and_money_with_its_unit(document):
    for place, name, schema in fields_of(document):
        if name not in OF_BETS:
            assert schema.get("description"), place
        if name.endswith("_minor"):
            assert "minor unit" in schema["description"], place


def test_every_parameter_is_described(document):
    for path, operations in document["paths"].items():
        for operation in operations.values():
            for parameter in operation.get("parameters", ()):
                assert parameter["description"], (path, parameter["name"])


def test_every_reference_leads_somewhere(document):
    schemas = document["components"]["schemas"]

    def references(part):
        if isinstance(part, list):
            return [each for one in part for each in references(one)]
        if not isinstance(part, dict):
            return []
        own = [part["$ref"]] if isinstance(part.get("$ref"), str) else []
        return own + [each for one in part.values() for each in references(one)]

    for reference in references(document):
        assert reference.removeprefix("#/components/schemas/") in schemas, reference


def test_the_codes_of_all_writes_are_documented(document):
    for write in WRITES:
        responses = document["paths"][write.path]["post"]["responses"]
        for code in ("invalid_command", "key_reused", "store_unavailable", "not_permitted"):
            assert f"`{code}`" in responses[str(STATUS[code])]["description"], write.path


def test_the_examples_are_an_evening_that_can_be_run(api, document):
    paths = {write.command: write.path for write in WRITES}
    for number, (command, in_path, body) in enumerate(EXAMPLES):
        answer = api.post(paths[command].format(**in_path), body, key=f"example-{number}")
        assert answer.status_code == 200, (command, answer.text)
    assert {command for command, _, _ in EXAMPLES} == set(COMMANDS)
