"""The page of the API names every path, role, right and code that there is."""

import re
from pathlib import Path

import pytest

from infrastructure.api.application import make_application
from infrastructure.api.problems import STATUS
from infrastructure.api.roles import QUESTIONS, RIGHTS, ROLES_OF_KEYS
from infrastructure.api.service import Service
from infrastructure.api.writes import WRITES
from infrastructure.cli.ledger import casino_on
from infrastructure.commands.contract import COMMANDS

PAGE = (Path(__file__).parents[3] / "docs" / "api.md").read_text()


@pytest.mark.parametrize("write", WRITES, ids=lambda write: write.command)
def test_a_command_stands_beside_its_path(write):
    assert f"| `POST {write.path}` | `{write.command}` |" in PAGE


def test_every_path_is_named(database):
    with casino_on(database) as casino:
        paths = make_application(Service(database, casino)).openapi()["paths"]
    for path, operations in paths.items():
        for method in operations:
            assert f"`{method.upper()} {path}`" in PAGE


@pytest.mark.parametrize("role", ROLES_OF_KEYS)
def test_a_role_stands_with_its_rights(role):
    (row,) = re.findall(rf"^\| `{role}` \| (.*) \|$", PAGE, re.MULTILINE)
    commands, questions = row.split(" | ")
    assert set(re.findall(r"`(\w+)`", commands)) == RIGHTS[role] & set(COMMANDS)
    if questions == "all":
        assert RIGHTS[role] >= QUESTIONS
    elif role != "player":
        named = set(questions.removesuffix(", of these tables").split(", "))
        assert named == RIGHTS[role] & QUESTIONS


def test_every_code_stands_with_its_status():
    found = {
        code: int(status)
        for status, codes in re.findall(r"^\| (\d+) \| (.*) \|$", PAGE, re.MULTILINE)
        for code in re.findall(r"`(\w+)`", codes)
    }
    assert found == STATUS
