"""Who may what: one table, from which the service decides and the tests try everything."""

from enum import StrEnum
from typing import get_args

from infrastructure.commands.contract import COMMANDS, Command


class Role(StrEnum):
    """What a key is for. The operator has none: it is whoever calls where no keys are kept."""

    TABLE = "table"
    CAGE = "cage"
    SUPERVISOR = "supervisor"
    AUDITOR = "auditor"
    PLAYER = "player"
    REPORTING = "reporting"
    OPERATOR = "operator"


ROLES_OF_KEYS = tuple(role for role in Role if role is not Role.OPERATOR)

_OF_A_TABLE = frozenset(
    {
        "open_shoe",
        "burn_cards",
        "cut_card",
        "close_shoe",
        "open_round",
        "place_bet",
        "cancel_bet",
        "close_betting",
        "deal",
        "settle_round",
        "play_round",
    }
)
_OF_THE_CAGE = frozenset({"open_account", "deposit", "withdraw", "collect_due", "close_account"})
_OF_A_SUPERVISOR = frozenset(
    {
        "set_gaming_day",
        "close_day",
        "open_table",
        "change_rules",
        "freeze_account",
        "unfreeze_account",
        "void_round",
        "propose_correction",
        "approve_correction",
        "reject_correction",
    }
)

QUESTIONS = frozenset(
    {
        "tables",
        "shoes",
        "rounds",
        "accounts",
        "events",
        "journal",
        "commission",
        "reconciliation",
        "days",
        "audit",
        "status",
        "metrics",
    }
)
"""What can be asked, by the right that it takes."""

_OF_REPORTING = frozenset(
    {"events", "journal", "commission", "reconciliation", "days", "status", "metrics"}
)

RIGHTS: dict[Role, frozenset[str]] = {
    Role.TABLE: _OF_A_TABLE | {"commands", "tables", "shoes", "rounds", "events"},
    Role.CAGE: _OF_THE_CAGE | {"commands", "accounts"},
    Role.SUPERVISOR: _OF_A_SUPERVISOR | {"commands"} | QUESTIONS,
    Role.AUDITOR: QUESTIONS,
    Role.PLAYER: frozenset({"accounts", "events"}),
    Role.REPORTING: _OF_REPORTING,
    Role.OPERATOR: frozenset(COMMANDS) | {"commands"} | QUESTIONS,
}
"""The commands that a role may give and the questions that it may ask.

`commands` is the right to give them by the line, each of which takes its own right.
A table's key does so for its tables alone, a player's for its account alone.
"""


def name_of(command: Command) -> str:
    """The name that a command has in the contract."""
    name: str = get_args(type(command).model_fields["command"].annotation)[0]
    return name
