"""What each command does: it asks the aggregates, and records the events that they answer with.

A handler returns the command's result. It raises Refused, and the turn's book
is then undone to where the command began.
"""

import secrets
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from domain.bets import RETURNED, Settlement
from domain.cards import Card
from domain.errors import Refused
from domain.event import Stamp
from domain.round import Bet, Declared, Round, RoundState
from domain.shoe import MOST_CARDS_A_ROUND, Shoe
from domain.shuffle import SCHEME, SEED_BYTES, commitment
from domain.tableau import cards_of_deal
from infrastructure.casino import Book
from infrastructure.commands import contract

Answer = dict[str, Any]
Handler = Callable[[Book, Any, Stamp], Answer]


def set_gaming_day(book: Book, command: contract.SetGamingDay, stamp: Stamp) -> Answer:
    book.record(book.site().set_gaming_day(command.zone, starts_at=command.starts_at, stamp=stamp))
    return {"zone": command.zone, "starts_at": command.starts_at}


def open_table(book: Book, command: contract.OpenTable, stamp: Stamp) -> Answer:
    table = book.table(command.table_id)
    book.record(table.open(command.currency, rules=command.rules, stamp=stamp))
    return _rules_of(book, command.table_id)


def change_rules(book: Book, command: contract.ChangeRules, stamp: Stamp) -> Answer:
    book.record(book.table(command.table_id).change_rules(command.rules, stamp=stamp))
    return _rules_of(book, command.table_id)


def _rules_of(book: Book, table_id: str) -> Answer:
    table = book.table(table_id)
    return {
        "table_id": table_id,
        "currency": table.currency,
        "rules_version": table.rules_version,
        "rules": table.rules.model_dump(mode="json", exclude_none=True),
    }


def open_account(book: Book, command: contract.OpenAccount, stamp: Stamp) -> Answer:
    book.record(book.account(command.account_id).open(command.currency, stamp=stamp))
    return _balance_of(book, command.account_id)


def deposit(book: Book, command: contract.Deposit, stamp: Stamp) -> Answer:
    book.record(book.account(command.account_id).deposit(command.amount_minor, stamp=stamp))
    return _balance_of(book, command.account_id)


def withdraw(book: Book, command: contract.Withdraw, stamp: Stamp) -> Answer:
    book.record(book.account(command.account_id).withdraw(command.amount_minor, stamp=stamp))
    return _balance_of(book, command.account_id)


def freeze_account(book: Book, command: contract.FreezeAccount, stamp: Stamp) -> Answer:
    book.record(book.account(command.account_id).freeze(command.reason, stamp=stamp))
    return _balance_of(book, command.account_id)


def unfreeze_account(book: Book, command: contract.UnfreezeAccount, stamp: Stamp) -> Answer:
    book.record(book.account(command.account_id).unfreeze(command.reason, stamp=stamp))
    return _balance_of(book, command.account_id)


def close_account(book: Book, command: contract.CloseAccount, stamp: Stamp) -> Answer:
    book.record(book.account(command.account_id).close(command.reason, stamp=stamp))
    return _balance_of(book, command.account_id)


def _balance_of(book: Book, account_id: str) -> Answer:
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


def open_shoe(book: Book, command: contract.OpenShoe, stamp: Stamp) -> Answer:
    table = book.table(command.table_id)
    table.must_be_known()
    shoe = book.shoe(command.shoe_id)
    decks = table.rules.decks
    answer: Answer = {
        "shoe_id": command.shoe_id,
        "table_id": command.table_id,
        "source": command.source,
        "decks": decks,
    }
    if command.source == "physical":
        if command.seed is not None:
            raise Refused("invalid_command", "seed: a physical shoe has none", field="seed")
        book.record(shoe.open_physical(command.table_id, decks=decks, stamp=stamp))
    else:
        given = command.seed is not None
        seed = bytes.fromhex(command.seed) if command.seed else secrets.token_bytes(SEED_BYTES)
        opened = shoe.open_shuffled(
            command.table_id, decks=decks, seed=seed, seed_given=given, stamp=stamp
        )
        book.record(*opened)
        book.keep_seed(command.shoe_id, seed)
        burned = _texts(book.shoe(command.shoe_id).burned)
        answer |= {"scheme": SCHEME, "commitment": commitment(seed), "burned": burned}
    book.record(table.place_shoe(command.shoe_id, stamp=stamp))
    return answer


def burn_cards(book: Book, command: contract.BurnCards, stamp: Stamp) -> Answer:
    book.record(book.shoe(command.shoe_id).burn(command.cards, stamp=stamp))
    return {"shoe_id": command.shoe_id, "burned": _texts(command.cards)}


def cut_card(book: Book, command: contract.CutCard, stamp: Stamp) -> Answer:
    shoe = book.shoe(command.shoe_id)
    shoe.must_be_open()
    if shoe.source == "shuffled":
        raise Refused(
            "invalid_command",
            "shoe_id: a shuffled shoe finds its cut card by itself",
            field="shoe_id",
        )
    book.record(shoe.reach_cut_card(stamp=stamp))
    return {"shoe_id": command.shoe_id, "cards_left": shoe.cards_left}


def close_shoe(book: Book, command: contract.CloseShoe, stamp: Stamp) -> Answer:
    shoe = book.shoe(command.shoe_id)
    shoe.must_be_open()
    seed = book.seed(command.shoe_id) if shoe.source == "shuffled" else None
    closed = shoe.close(seed=seed, stamp=stamp)
    removed = book.table(shoe.table_id).remove_shoe(command.shoe_id, stamp=stamp)
    book.record(closed, removed)
    answer: Answer = {"shoe_id": command.shoe_id, "rounds": shoe.rounds}
    if seed is not None:
        book.keep_seed(command.shoe_id, None)
        answer["seed"] = seed.hex()
    return answer


def open_round(book: Book, command: contract.OpenRound, stamp: Stamp) -> Answer:
    _start_round(book, command.round_id, command.shoe_id, stamp)
    return _standing(book, command.round_id)


def place_bet(book: Book, command: contract.PlaceBet, stamp: Stamp) -> Answer:
    _accept_bet(book, command.round_id, command, stamp)
    available_minor = book.account(command.account_id).available_minor
    return {
        "round_id": command.round_id,
        "bet_id": command.bet_id,
        "available_minor": available_minor,
    }


def cancel_bet(book: Book, command: contract.CancelBet, stamp: Stamp) -> Answer:
    round_ = book.round(command.round_id)
    bet = round_.bets.get(command.bet_id)
    book.record(round_.cancel_bet(command.bet_id, stamp=stamp))
    if bet is not None:
        _resolve(book, round_, bet, RETURNED, stamp)
    returned_minor = 0 if bet is None else bet.stake_minor
    return {
        "round_id": command.round_id,
        "bet_id": command.bet_id,
        "returned_minor": returned_minor,
    }


def close_betting(book: Book, command: contract.CloseBetting, stamp: Stamp) -> Answer:
    book.record(book.round(command.round_id).close_betting(stamp=stamp))
    return _standing(book, command.round_id)


def deal(book: Book, command: contract.Deal, stamp: Stamp) -> Answer:
    _deal(book, command.round_id, command.cards, command.irregular, stamp)
    return _standing(book, command.round_id)


def settle_round(book: Book, command: contract.SettleRound, stamp: Stamp) -> Answer:
    before = _before_staking(book, book.round(command.round_id))
    _settle(book, command.round_id, stamp)
    return _settlement(book, command.round_id, before)


def play_round(book: Book, command: contract.PlayRound, stamp: Stamp) -> Answer:
    _start_round(book, command.round_id, command.shoe_id, stamp)
    before = _available(book, (bet.account_id for bet in command.bets))
    for bet in command.bets:
        _accept_bet(book, command.round_id, bet, stamp)
    book.record(book.round(command.round_id).close_betting(stamp=stamp))
    _deal(book, command.round_id, command.cards, None, stamp)
    _settle(book, command.round_id, stamp)
    return _settlement(book, command.round_id, before)


def void_round(book: Book, command: contract.VoidRound, stamp: Stamp) -> Answer:
    round_ = book.round(command.round_id)
    voided = round_.void(command.reason, stamp=stamp)
    before = _before_staking(book, round_)
    book.record(voided)
    for bet in round_.open_bets:
        _resolve(book, round_, bet, RETURNED, stamp)
    book.record(book.shoe(round_.shoe_id).end_round(round_.dealt, stamp=stamp))
    return _settlement(book, command.round_id, before)


def record_round(book: Book, command: contract.RecordRound, stamp: Stamp) -> Answer:
    shoe = book.shoe(command.shoe_id)
    book.record(shoe.start_recorded_round(command.round_id, number=command.number, stamp=stamp))
    _open(book, command.round_id, shoe, command.number, stamp, command.recorded_from)
    declared = Declared(command.player_total, command.banker_total, command.outcome)
    book.record(
        *book.round(command.round_id).record(
            player=command.player, banker=command.banker, declared=declared, stamp=stamp
        )
    )
    dealt = book.round(command.round_id).dealt
    book.record(book.shoe(command.shoe_id).end_round(dealt, stamp=stamp))
    return {"round_id": command.round_id}


def _start_round(book: Book, round_id: str, shoe_id: str, stamp: Stamp) -> None:
    shoe = book.shoe(shoe_id)
    shoe.must_be_known()
    _open(book, round_id, shoe, shoe.rounds + 1, stamp)
    after_cut_card = book.table(shoe.table_id).rules.after_cut_card
    book.record(shoe.start_round(round_id, after_cut_card=after_cut_card, stamp=stamp))


def _open(
    book: Book,
    round_id: str,
    shoe: Shoe,
    number: int,
    stamp: Stamp,
    recorded_from: str | None = None,
) -> None:
    table = book.table(shoe.table_id)
    opened = book.round(round_id).open(
        table_id=shoe.table_id,
        shoe_id=shoe.name,
        number=number,
        currency=table.currency,
        rules_version=table.rules_version,
        rules=table.rules,
        stamp=stamp,
        recorded_from=recorded_from,
    )
    book.record(opened)


def _accept_bet(
    book: Book, round_id: str, bet: contract.PlaceBet | contract.Bet, stamp: Stamp
) -> None:
    round_ = book.round(round_id)
    placed = round_.place_bet(
        bet.bet,
        bet_id=bet.bet_id,
        account_id=bet.account_id,
        stake_minor=bet.stake_minor,
        stamp=stamp,
    )
    account = book.account(bet.account_id)
    account.must_be_known()
    if account.currency != round_.currency:
        raise Refused(
            "currency_mismatch",
            f"account {account.name} holds {account.currency}, the table plays {round_.currency}",
            field="account_id",
        )
    staked = account.place_stake(bet.stake_minor, round_id=round_id, bet_id=bet.bet_id, stamp=stamp)
    book.record(placed, staked)


def _deal(
    book: Book,
    round_id: str,
    cards: tuple[Card, ...] | None,
    irregular: str | None,
    stamp: Stamp,
) -> None:
    round_ = book.round(round_id)
    round_.must_be_dealing()
    shoe = book.shoe(round_.shoe_id)
    if shoe.source == "physical":
        if cards is None:
            raise Refused("invalid_command", "cards: a physical shoe needs them", field="cards")
        shoe.check_cards((*round_.dealt, *cards))
        book.record(*round_.deal(cards, irregular=irregular, stamp=stamp))
        return
    if cards is not None or irregular is not None:
        field = "irregular" if cards is None else "cards"
        raise Refused("invalid_command", f"{field}: a shuffled shoe deals by itself", field=field)
    _deal_from_shuffled(book, round_, shoe, stamp)


def _deal_from_shuffled(book: Book, round_: Round, shoe: Shoe, stamp: Stamp) -> None:
    if round_.state is RoundState.RESOLVED:
        raise Refused("third_card_not_allowed", f"the deal of round {round_.name} is complete")
    assert not round_.dealt, "a shuffled shoe deals a round at once"
    upcoming = shoe.next_cards(MOST_CARDS_A_ROUND, in_round=0, seed=book.seed(shoe.name))
    cards = upcoming[: cards_of_deal([card.points for card in upcoming])]
    book.record(*round_.deal(cards, irregular=None, stamp=stamp))
    if shoe.meets_cut_card(len(cards)):
        book.record(shoe.reach_cut_card(stamp=stamp))


def _settle(book: Book, round_id: str, stamp: Stamp) -> None:
    before = book.round(round_id)
    book.record(*before.settle(stamp=stamp))
    settled = book.round(round_id)
    for bet in before.open_bets:
        _resolve(book, settled, bet, settled.bets[bet.id].settlement, stamp)
    book.record(book.shoe(settled.shoe_id).end_round(settled.dealt, stamp=stamp))


def _resolve(book: Book, round_: Round, bet: Bet, settlement: Settlement, stamp: Stamp) -> None:
    resolved = book.account(bet.account_id).resolve_stake(
        settlement,
        round_id=round_.name,
        bet_id=bet.id,
        collection=round_.rules.commission.collection,
        stamp=stamp,
    )
    book.record(*resolved)


def _available(book: Book, account_ids: Iterable[str]) -> dict[str, int]:
    ids = list(dict.fromkeys(account_ids))
    book.fetch([f"account:{account_id}" for account_id in ids])
    return {account_id: book.account(account_id).available_minor for account_id in ids}


def _before_staking(book: Book, round_: Round) -> dict[str, int]:
    """What the accounts of a round's bets would have available without these bets."""
    available = _available(book, (bet.account_id for bet in round_.open_bets))
    for bet in round_.open_bets:
        available[bet.account_id] += bet.stake_minor
    return available


def _standing(book: Book, round_id: str) -> Answer:
    """Where a round stands, for the one who deals it."""
    round_ = book.round(round_id)
    return {
        "round_id": round_id,
        "shoe_id": round_.shoe_id,
        "number": round_.number,
        "state": round_.state.value,
        "player_cards": _texts(round_.player),
        "banker_cards": _texts(round_.banker),
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


def _settlement(book: Book, round_id: str, before: Mapping[str, int]) -> Answer:
    """What every bet came to, and each account's available balance before its bets and after."""
    round_ = book.round(round_id)
    return {
        **_standing(book, round_id),
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


def _texts(cards: Iterable[Card]) -> list[str]:
    return [str(card) for card in cards]


HANDLERS: dict[type[contract.Command], Handler] = {
    contract.SetGamingDay: set_gaming_day,
    contract.OpenTable: open_table,
    contract.ChangeRules: change_rules,
    contract.OpenAccount: open_account,
    contract.Deposit: deposit,
    contract.Withdraw: withdraw,
    contract.FreezeAccount: freeze_account,
    contract.UnfreezeAccount: unfreeze_account,
    contract.CloseAccount: close_account,
    contract.OpenShoe: open_shoe,
    contract.BurnCards: burn_cards,
    contract.CutCard: cut_card,
    contract.OpenRound: open_round,
    contract.PlaceBet: place_bet,
    contract.CancelBet: cancel_bet,
    contract.CloseBetting: close_betting,
    contract.Deal: deal,
    contract.SettleRound: settle_round,
    contract.PlayRound: play_round,
    contract.VoidRound: void_round,
    contract.CloseShoe: close_shoe,
    contract.RecordRound: record_round,
}
