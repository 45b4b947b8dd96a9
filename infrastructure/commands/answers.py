"""What an answer shows: balances, where a round stands, and what a settlement came to."""

from collections.abc import Iterable, Mapping
from typing import Any

from domain.cards import Card
from domain.round import Bet, Round
from infrastructure.casino import Book

Answer = dict[str, Any]


def balance_of(book: Book, account_id: str) -> Answer:
    account = book.account(account_id)
    return {
        "account_id": account_id,
        "currency": account.currency,
        "available_minor": account.available_minor,
        "in_play_minor": account.in_play_minor,
        "commission_due_minor": account.commission_due_minor,
        "owed_minor": account.owed_minor,
        "transaction": account.version,
    }


def available(book: Book, account_ids: Iterable[str]) -> dict[str, int]:
    ids = list(dict.fromkeys(account_ids))
    book.fetch([f"account:{account_id}" for account_id in ids])
    return {account_id: book.account(account_id).available_minor for account_id in ids}


def before_staking(book: Book, round_: Round) -> dict[str, int]:
    """What the accounts of a round's bets would have available without these bets."""
    before = available(book, (bet.account_id for bet in round_.open_bets))
    for bet in round_.open_bets:
        before[bet.account_id] += bet.stake_minor
    return before


def standing(book: Book, round_id: str) -> Answer:
    """Where a round stands, for the one who deals it."""
    round_ = book.round(round_id)
    return {
        "round_id": round_id,
        "shoe_id": round_.shoe_id,
        "number": round_.number,
        "state": round_.state.value,
        "player_cards": texts(round_.player),
        "banker_cards": texts(round_.banker),
        **_outcome(round_),
        "rounds_left": _rounds_left(book, round_),
    }


def _rounds_left(book: Book, round_: Round) -> int | None:
    """How many more rounds the shoe deals; None as long as its cut card is not out."""
    shoe = book.shoe(round_.shoe_id)
    if not shoe.cut_card_is_out:
        return None
    after_cut_card = book.table(shoe.table_id).rules.after_cut_card
    return max(after_cut_card - shoe.rounds_after_cut_card, 0)


def settlement(book: Book, round_id: str, before: Mapping[str, int]) -> Answer:
    """What every bet came to, and each account's available balance before its bets and after."""
    round_ = book.round(round_id)
    return {
        **standing(book, round_id),
        "bets": [bet_line(bet, round_.currency) for bet in round_.bets.values()],
        "accounts": [
            {
                "account_id": account_id,
                "currency": round_.currency,
                "before_minor": before_minor,
                "after_minor": book.account(account_id).available_minor,
            }
            for account_id, before_minor in before.items()
        ],
    }


def _outcome(round_: Round) -> Answer:
    declared = round_.declared
    if declared is None:
        return {"player_total": None, "banker_total": None, "outcome": None}
    return {
        "player_total": declared.player_total,
        "banker_total": declared.banker_total,
        "outcome": declared.outcome.value,
    }


def bet_line(bet: Bet, currency: str) -> Answer:
    """A bet and what became of it; the win alone, before commission, in minor units."""
    return {
        "bet_id": bet.id,
        "account_id": bet.account_id,
        "bet": bet.kind.value,
        "stake_minor": bet.stake_minor,
        "currency": currency,
        "result": bet.settlement.result.value,
        "win_minor": bet.settlement.win_minor,
        "commission_minor": bet.settlement.commission_minor,
    }


def texts(cards: Iterable[Card]) -> list[str]:
    return [str(card) for card in cards]
