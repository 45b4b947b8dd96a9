"""The commands that correct a settled round: proposed by one actor, decided by another.

An approved correction reverses what the settlement of each changed bet did to
its account, says what holds now, and settles anew, all in one transaction.
"""

from collections.abc import Sequence

from domain.bets import RETURNED
from domain.cards import Card
from domain.correction import CorrectedBet
from domain.event import Stamp
from domain.round import Bet, BetChange, Round
from infrastructure.casino import Book
from infrastructure.commands import contract
from infrastructure.commands.answers import Answer, bet_line, settlement, texts
from infrastructure.commands.settling import resolve


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
    book.shoe(round_.shoe_id).check_corrected(
        instead_of=round_.dealt, cards=after.dealt, on_table=_on_table(book, round_.shoe_id)
    )
    changes = round_.changes(after)
    _check_accounts(book, round_, changes)
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
    changes = before.changes(after)
    accounts = _check_accounts(book, before, changes)
    stood = {account_id: book.account(account_id) for account_id in accounts}

    for account_id in accounts:
        book.record(*book.account(account_id).reopen(command.correction_id, stamp=stamp))
    for change in changes:
        if change.was is not None:
            _reverse(book, before, change.was, command.correction_id, stamp)
    book.record(*decided)
    for change in changes:
        _give_back(book, before, change, stamp)
    # A stake is given back before one is placed, so that it can cover that one.
    for change in changes:
        _stake_anew(book, after, change, stamp)
    marked: list[str] = []
    for change in changes:
        if change.becomes is not None:
            bet = change.becomes
            marked += resolve(book, after, bet, bet.settlement, stamp)
    _correct_shoe(book, before, after, command.correction_id, marked, stamp)
    shoe = book.shoe(before.shoe_id)
    for account_id, account in stood.items():
        is_due = shoe.is_closed and account_id in marked
        _collect(book, account_id, stamp, owed_before_minor=account.owed_minor, is_due=is_due)
    available = {account_id: account.available_minor for account_id, account in stood.items()}
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


def _check_accounts(book: Book, round_: Round, changes: Sequence[BetChange]) -> list[str]:
    """The accounts of the bets that change, each once; refused where one does not fit."""
    bets = [bet for change in changes for bet in (change.was, change.becomes) if bet is not None]
    ids = list(dict.fromkeys(bet.account_id for bet in bets))
    book.fetch([f"account:{account_id}" for account_id in ids])
    for account_id in ids:
        book.account(account_id).must_hold(round_.currency)
    return ids


def _on_table(book: Book, shoe_id: str) -> tuple[Card, ...]:
    """The cards of the round that is open on a shoe."""
    open_round = book.shoe(shoe_id).round_id
    return () if open_round is None else book.round(open_round).dealt


def _reverse(book: Book, round_: Round, bet: Bet, correction_id: str, stamp: Stamp) -> None:
    account = book.account(bet.account_id)
    book.record(
        account.reverse_settlement(
            bet.settlement,
            stake_minor=bet.stake_minor,
            round_id=round_.name,
            bet_id=bet.id,
            correction_id=correction_id,
            stamp=stamp,
        )
    )


def _give_back(book: Book, round_: Round, change: BetChange, stamp: Stamp) -> None:
    """Takes out of play a stake that no longer holds as it was."""
    if change.was is not None and not change.keeps_its_stake:
        resolve(book, round_, change.was, RETURNED, stamp)


def _stake_anew(book: Book, round_: Round, change: BetChange, stamp: Stamp) -> None:
    bet = change.becomes
    if bet is not None and not change.keeps_its_stake:
        account = book.account(bet.account_id)
        book.record(
            account.place_corrected_stake(
                bet.stake_minor, round_id=round_.name, bet_id=bet.id, stamp=stamp
            )
        )


def _correct_shoe(
    book: Book,
    before: Round,
    after: Round,
    correction_id: str,
    marked: Sequence[str],
    stamp: Stamp,
) -> None:
    """Tells the shoe of other cards and, while it is open, of commission to collect."""
    shoe = book.shoe(before.shoe_id)
    corrected = shoe.correct_draw(
        before.name,
        correction_id=correction_id,
        instead_of=before.dealt,
        cards=after.dealt,
        marked=() if shoe.is_closed else marked,
        on_table=_on_table(book, before.shoe_id),
        stamp=stamp,
    )
    book.record(*corrected)


def _collect(
    book: Book, account_id: str, stamp: Stamp, *, owed_before_minor: int, is_due: bool
) -> None:
    """Pays what the correction left owed from what it brought; and what fell due with the shoe."""
    account = book.account(account_id)
    collected = account.collect(
        commission_minor=account.commission_due_minor if is_due else 0,
        owed_minor=account.owed_minor - owed_before_minor,
        stamp=stamp,
    )
    book.record(*collected)
