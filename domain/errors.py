"""What the ledger refuses, each with a code that stays the same for ever."""

from typing import Literal

RefusalCode = Literal[
    "invalid_command",
    "unknown_table",
    "unknown_account",
    "unknown_shoe",
    "unknown_round",
    "unknown_bet",
    "unknown_correction",
    "already_exists",
    "key_reused",
    "time_out_of_bounds",
    "insufficient_funds",
    "account_frozen",
    "account_closed",
    "balance_not_zero",
    "commission_outstanding",
    "currency_mismatch",
    "limit_below",
    "limit_above",
    "opposite_bets",
    "bet_not_offered",
    "undecidable_bet",
    "betting_closed",
    "betting_open",
    "bet_cancelled",
    "third_card_not_allowed",
    "deal_incomplete",
    "card_not_in_shoe",
    "shoe_open",
    "shoe_exhausted",
    "shoe_closed",
    "burn_too_late",
    "round_open",
    "round_settled",
    "round_void",
    "same_actor",
    "already_decided",
    "day_closed",
    "not_permitted",
    "store_unavailable",
]


class Refused(Exception):  # noqa: N818 - a refusal is an answer, not an error
    """A command that the rules do not allow: nothing is recorded.

    `field` names the part of the command that is to blame, where one part is.
    """

    def __init__(self, code: RefusalCode, message: str, *, field: str | None = None) -> None:
        super().__init__(message)
        self.code: RefusalCode = code
        self.message = message
        self.field = field
