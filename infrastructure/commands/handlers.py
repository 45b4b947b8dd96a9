"""What each command does: it asks the aggregates, and records the events that they answer with.

A handler returns the command's result. It raises Refused, and the turn's book
is then undone to where the command began.
"""

import secrets
from collections.abc import Callable
from typing import Any

from domain.bets import RETURNED
from domain.cards import Card
from domain.errors import Refused
from domain.event import Stamp
from domain.round import Declared, Round, RoundState
from domain.shoe import MOST_CARDS_A_ROUND, Shoe
from domain.shuffle import SCHEME, SEED_BYTES, commitment
from domain.tableau import cards_of_deal
from infrastructure.casino import Book
from infrastructure.commands import contract, correcting
from infrastructure.commands.answers import (
    Answer,
    available,
    balance_of,
    before_staking,
    settlement,
    standing,
    texts,
)
from infrastructure.commands.settling import collect_commission, resolve

Handler = Callable[[Book, Any, Stamp], Answer]


def set_gaming_day(book: Book, command: contract.SetGamingDay, stamp: Stamp) -> Answer:
    book.record(book.site().set_gaming_day(command.zone, starts_at=command.starts_at, stamp=stamp))
    return {"zone": command.zone, "starts_at": command.starts_at}


def close_day(book: Book, command: contract.CloseDay, stamp: Stamp) -> Answer:
    book.record(book.site().close_day(command.day, stamp=stamp))
    return {"day": command.day.isoformat()}


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
    return balance_of(book, command.account_id)


def deposit(book: Book, command: contract.Deposit, stamp: Stamp) -> Answer:
    book.record(book.account(command.account_id).deposit(command.amount_minor, stamp=stamp))
    return balance_of(book, command.account_id)


def withdraw(book: Book, command: contract.Withdraw, stamp: Stamp) -> Answer:
    book.record(book.account(command.account_id).withdraw(command.amount_minor, stamp=stamp))
    return balance_of(book, command.account_id)


def freeze_account(book: Book, command: contract.FreezeAccount, stamp: Stamp) -> Answer:
    book.record(book.account(command.account_id).freeze(command.reason, stamp=stamp))
    return balance_of(book, command.account_id)


def unfreeze_account(book: Book, command: contract.UnfreezeAccount, stamp: Stamp) -> Answer:
    book.record(book.account(command.account_id).unfreeze(command.reason, stamp=stamp))
    return balance_of(book, command.account_id)


def close_account(book: Book, command: contract.CloseAccount, stamp: Stamp) -> Answer:
    book.record(*book.account(command.account_id).close(command.reason, stamp=stamp))
    return balance_of(book, command.account_id)


def collect_due(book: Book, command: contract.CollectDue, stamp: Stamp) -> Answer:
    before = book.account(command.account_id)
    book.record(*before.collect_due(stamp=stamp))
    after = book.account(command.account_id)
    return {
        **balance_of(book, command.account_id),
        "commission_collected_minor": before.commission_due_minor - after.commission_due_minor,
        "owed_collected_minor": before.owed_minor - after.owed_minor,
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
        burned = texts(book.shoe(command.shoe_id).burned)
        answer |= {"scheme": SCHEME, "commitment": commitment(seed), "burned": burned}
    book.record(table.place_shoe(command.shoe_id, stamp=stamp))
    return answer


def burn_cards(book: Book, command: contract.BurnCards, stamp: Stamp) -> Answer:
    book.record(book.shoe(command.shoe_id).burn(command.cards, stamp=stamp))
    return {"shoe_id": command.shoe_id, "burned": texts(command.cards)}


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
    collect_commission(book, shoe.marked, stamp)
    removed = book.table(shoe.table_id).remove_shoe(command.shoe_id, stamp=stamp)
    book.record(closed, removed)
    answer: Answer = {"shoe_id": command.shoe_id, "rounds": shoe.rounds}
    if seed is not None:
        book.keep_seed(command.shoe_id, None)
        answer["seed"] = seed.hex()
    return answer


def open_round(book: Book, command: contract.OpenRound, stamp: Stamp) -> Answer:
    _start_round(book, command.round_id, command.shoe_id, stamp)
    return standing(book, command.round_id)


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
        resolve(book, round_, bet, RETURNED, stamp)
    returned_minor = 0 if bet is None else bet.stake_minor
    return {
        "round_id": command.round_id,
        "bet_id": command.bet_id,
        "returned_minor": returned_minor,
    }


def close_betting(book: Book, command: contract.CloseBetting, stamp: Stamp) -> Answer:
    book.record(book.round(command.round_id).close_betting(stamp=stamp))
    return standing(book, command.round_id)


def deal(book: Book, command: contract.Deal, stamp: Stamp) -> Answer:
    _deal(book, command.round_id, command.cards, command.irregular, stamp)
    return standing(book, command.round_id)


def settle_round(book: Book, command: contract.SettleRound, stamp: Stamp) -> Answer:
    before = before_staking(book, book.round(command.round_id))
    _settle(book, command.round_id, stamp)
    return settlement(book, command.round_id, before)


def play_round(book: Book, command: contract.PlayRound, stamp: Stamp) -> Answer:
    _start_round(book, command.round_id, command.shoe_id, stamp)
    before = available(book, (bet.account_id for bet in command.bets))
    for bet in command.bets:
        _accept_bet(book, command.round_id, bet, stamp)
    book.record(book.round(command.round_id).close_betting(stamp=stamp))
    _deal(book, command.round_id, command.cards, None, stamp)
    _settle(book, command.round_id, stamp)
    return settlement(book, command.round_id, before)


def void_round(book: Book, command: contract.VoidRound, stamp: Stamp) -> Answer:
    round_ = book.round(command.round_id)
    voided = round_.void(command.reason, stamp=stamp)
    before = before_staking(book, round_)
    book.record(voided)
    for bet in round_.open_bets:
        resolve(book, round_, bet, RETURNED, stamp)
    book.record(book.shoe(round_.shoe_id).end_round(round_.dealt, stamp=stamp))
    return settlement(book, command.round_id, before)


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
    account.must_hold(round_.currency)
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
    marked: list[str] = []
    for bet in before.open_bets:
        marked += resolve(book, settled, bet, settled.bets[bet.id].settlement, stamp)
    shoe = book.shoe(settled.shoe_id)
    book.record(shoe.end_round(settled.dealt, marked=marked, stamp=stamp))


HANDLERS: dict[type[contract.Command], Handler] = {
    contract.SetGamingDay: set_gaming_day,
    contract.CloseDay: close_day,
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
    contract.ProposeCorrection: correcting.propose_correction,
    contract.ApproveCorrection: correcting.approve_correction,
    contract.RejectCorrection: correcting.reject_correction,
    contract.CollectDue: collect_due,
    contract.CloseShoe: close_shoe,
    contract.RecordRound: record_round,
}
