"""The page of commands names every command, field, bet and code that there is."""

import re
from pathlib import Path
from typing import get_args

import pytest

from domain.bets import BetKind
from domain.errors import RefusalCode
from domain.rules import STANDARD_RULES, Rules
from infrastructure.commands.contract import Command, RecordRound
from infrastructure.commands.handlers import HANDLERS

PAGE = (Path(__file__).parent.parent.parent / "docs" / "commands.md").read_text()
NOT_YET_REFUSED = {"unknown_bet"}

COMMANDS = {
    command.model_fields["command"].annotation.__args__[0]: command
    for command in HANDLERS
    if command is not RecordRound
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_stands_with_its_fields(name):
    (row,) = re.findall(rf"^\| `{name}` \| (.*?) \|", PAGE, re.MULTILINE)
    fields = [
        field
        for field in COMMANDS[name].model_fields
        if field not in {"command", *Command.model_fields}
    ]
    assert re.findall(r"`(\w+)`", row) == fields


def test_every_bet_and_every_code_is_named():
    named = set(re.findall(r"`(\w+)`", PAGE))
    assert {kind.value for kind in BetKind} <= named
    assert set(get_args(RefusalCode)) - NOT_YET_REFUSED <= named


def test_the_rules_on_the_page_are_the_defaults():
    (rules,) = re.findall(r'```json\n(\{"variant".*?)```', PAGE, re.DOTALL)
    assert Rules.model_validate_json(rules) == STANDARD_RULES
