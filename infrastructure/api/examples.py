"""An evening in commands: the examples of the OpenAPI document, run in this order by a test."""

from typing import Any

_BETS = [{"bet_id": "B1", "account_id": "P1", "bet": "banker", "stake_minor": 10_000}]

EXAMPLES: tuple[tuple[str, dict[str, str], dict[str, Any]], ...] = (
    ("close_day", {"day": "2026-01-31"}, {}),
    ("set_gaming_day", {}, {"zone": "Europe/London", "starts_at": "06:00"}),
    ("open_table", {}, {"table_id": "T1", "currency": "USD"}),
    ("change_rules", {"table_id": "T1"}, {"rules": {"limits": {"minimum_minor": 500}}}),
    ("open_account", {}, {"account_id": "P1", "currency": "USD"}),
    ("deposit", {"account_id": "P1"}, {"amount_minor": 100_000}),
    ("open_shoe", {}, {"shoe_id": "S1", "table_id": "T1", "source": "physical"}),
    ("burn_cards", {"shoe_id": "S1"}, {"cards": ["2H", "??", "??"]}),
    (
        "play_round",
        {"round_id": "R1"},
        {"shoe_id": "S1", "bets": _BETS, "cards": ["2C", "9D", "KH", "8C", "8S"]},
    ),
    ("open_round", {}, {"round_id": "R2", "shoe_id": "S1"}),
    ("place_bet", {"round_id": "R2"}, {**_BETS[0], "bet": "player"}),
    ("place_bet", {"round_id": "R2"}, {**_BETS[0], "bet_id": "B2", "bet": "tie"}),
    ("cancel_bet", {"round_id": "R2", "bet_id": "B2"}, {}),
    ("close_betting", {"round_id": "R2"}, {}),
    ("deal", {"round_id": "R2"}, {"cards": ["9C", "3H", "TS", "4D"]}),
    ("settle_round", {"round_id": "R2"}, {}),
    ("cut_card", {"shoe_id": "S1"}, {}),
    ("open_round", {}, {"round_id": "R3", "shoe_id": "S1"}),
    ("void_round", {"round_id": "R3"}, {"reason": "A card was exposed"}),
    (
        "propose_correction",
        {"round_id": "R2"},
        {"correction_id": "C1", "reason": "The stake was 50.00", "actor": "ann", "void": True},
    ),
    ("approve_correction", {"correction_id": "C1"}, {"actor": "bob"}),
    (
        "propose_correction",
        {"round_id": "R1"},
        {"correction_id": "C2", "reason": "Not sure", "actor": "ann", "void": True},
    ),
    ("reject_correction", {"correction_id": "C2"}, {"actor": "bob"}),
    ("close_shoe", {"shoe_id": "S1"}, {}),
    ("collect_due", {"account_id": "P1"}, {}),
    ("freeze_account", {"account_id": "P1"}, {"reason": "Asked for by the player"}),
    ("unfreeze_account", {"account_id": "P1"}, {"reason": "Asked for by the player"}),
    ("withdraw", {"account_id": "P1"}, {"amount_minor": 90_000}),
    ("open_account", {}, {"account_id": "P2", "currency": "USD"}),
    ("close_account", {"account_id": "P2"}, {"reason": "Asked for by the player"}),
)


def example_of(command: str) -> tuple[dict[str, str], dict[str, Any]]:
    """The first example of a command, which each has: what stands in its path, and its body."""
    for name, in_path, body in EXAMPLES:
        if name == command:
            return in_path, body
    raise LookupError(command)
