"""The commands that correct a settled round: proposed by one actor, decided by another.

An approved correction reverses what the settlement of each changed bet did to
its account, says what holds now, and settles anew, all in one transaction.
"""

from domain.account import Account
from domain.cards import Card
from domain.correction import CorrectedBet
from domain.event import Stamp
from domain.resettlement import resettle
from domain.round import Round
from domain.shoe import Shoe
from infrastructure.casino import Book
from infrastructure.commands import contract
from infrastructure.commands.answers import Answer, bet_line, settlement, texts


def propose_correction(book: Book, command: contract.ProposeCorrection, stamp: Stamp) -> Answer:
    filed = book.correction(command.correction_id).file(command.round_id, stamp=stamp)
    round_ = book.round(command.round_id)
    bets = None if command.bets is None else tuple(_corrected(bet) for bet in command.bets)
    proposed = round_.propose_correction(
        command.correction_id,
        cards=command.cards,
        bets=bets,
        is_void=command.void is not None,
        reason=command.reason,
        stamp=stamp,
    )
    book.record(filed, proposed)
    proposal = book.round(command.round_id).corrections[command.correction_id]
    after = round_.corrected(proposal)
    shoe = book.shoe(round_.shoe_id)
    shoe.check_corrected(instead_of=round_.dealt, cards=after.dealt, on_table=_on_table(book, shoe))
    _accounts_of(book, round_, after)
    return {
        "correction_id": command.correction_id,
        "round_id": command.round_id,
        "state": "proposed",
        "player_cards": texts(after.player),
        "banker_cards": texts(after.banker),
        "bets": [bet_line(bet, round_.currency) for bet in after.bets.values()],
    }


def reject_correction(book: Book, command: contract.RejectCorrection, stamp: Stamp) -> Answer:
    round_ = _round_of(book, command.correction_id)
    book.record(round_.reject_correction(command.correction_id, stamp=stamp))
    return {
        "correction_id": command.correction_id,
        "round_id": round_.name,
        "state": "rejected",
    }


def approve_correction(book: Book, command: contract.ApproveCorrection, stamp: Stamp) -> Answer:
    before = _round_of(book, command.correction_id)
    decided = before.approve_correction(command.correction_id, stamp=stamp)
    after = before
    for event in decided:
        after = after.apply(event)
    accounts = _accounts_of(book, before, after)
    shoe = book.shoe(before.shoe_id)
    resettled = resettle(
        before,
        after,
        accounts,
        correction_id=command.correction_id,
        shoe_is_closed=shoe.is_closed,
        stamp=stamp,
    )
    corrected = shoe.correct_draw(
        before.name,
        correction_id=command.correction_id,
        instead_of=before.dealt,
        cards=after.dealt,
        marked=() if shoe.is_closed else resettled.marked,
        on_table=_on_table(book, shoe),
        stamp=stamp,
    )
    # The reversals come first: they undo bets as they were before the correction.
    book.record(*resettled.reversed, *decided, *resettled.settled, *corrected)
    available = {account_id: account.available_minor for account_id, account in accounts.items()}
    answer = settlement(book, before.name, available)
    for line in answer["accounts"]:
        line["owed_minor"] = book.account(line["account_id"]).owed_minor
    return {"correction_id": command.correction_id, **answer}


def _round_of(book: Book, correction_id: str) -> Round:
    correction = book.correction(correction_id)
    correction.must_be_known()
    return book.round(correction.round_id)


def _corrected(bet: contract.Bet) -> CorrectedBet:
    return CorrectedBet(bet.bet_id, bet.account_id, bet.bet, bet.stake_minor)


def _accounts_of(book: Book, before: Round, after: Round) -> dict[str, Account]:
    """The accounts of the bets that change, each once; refused where one does not fit."""
    both = [(change.was, change.becomes) for change in before.changes(after)]
    ids = list(dict.fromkeys(bet.account_id for bets in both for bet in bets if bet is not None))
    book.fetch([f"account:{account_id}" for account_id in ids])
    for account_id in ids:
        book.account(account_id).must_hold(before.currency)
    return {account_id: book.account(account_id) for account_id in ids}


def _on_table(book: Book, shoe: Shoe) -> tuple[Card, ...]:
    """The cards of the round that is open on a shoe."""
    return () if shoe.round_id is None else book.round(shoe.round_id).dealt
