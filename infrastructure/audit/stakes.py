"""Judges what the accounts did for a round against what its bets demand."""

from collections import Counter
from collections.abc import Mapping
from itertools import pairwise
from typing import assert_never

from domain.account import (
    CommissionCharged,
    CommissionMarked,
    SettlementReversed,
    StakeLost,
    StakePlaced,
    StakeReturned,
    WinPaid,
)
from domain.bets import Result
from domain.round import BetSettled
from infrastructure.audit.findings import Code, Finding
from infrastructure.audit.record import Chapter, HeldBet, RoundRecord, StakeMovement
from infrastructure.audit.resettled import judge_resettled

_Resolution = StakeLost | StakeReturned | WinPaid


class _Movements:
    """What one account did for one bet."""

    __slots__ = ("charged_minor", "marked_minor", "placed", "resolved", "strangers")

    def __init__(self) -> None:
        self.placed: list[StakePlaced] = []
        self.resolved: list[_Resolution] = []
        self.charged_minor = 0
        self.marked_minor = 0
        self.strangers: list[StakeMovement] = []
        """What other accounts than the bettor's did for the bet."""

    def see(self, event: StakeMovement, account: str) -> None:
        if event.originator_id != account:
            self.strangers.append(event)
            return
        match event:
            case StakePlaced():
                self.placed.append(event)
            case StakeLost() | StakeReturned() | WinPaid():
                self.resolved.append(event)
            case CommissionCharged():
                self.charged_minor += event.commission_minor
            case CommissionMarked():
                self.marked_minor += event.commission_minor
            case SettlementReversed():
                raise AssertionError("a reversal belongs to a correction")
            case _:
                assert_never(event)


def judge_stakes(record: RoundRecord, currencies: Mapping[str, str]) -> list[Finding]:
    """The faults between a round's bets and the account events that name the round.

    `currencies` has the currency of each account that is known, by its stream.
    """
    if not record.played.bets and not record.has_movements and len(record.chapters) == 1:
        return []
    if _is_as_demanded(record, currencies):
        return []
    findings = _judge_played(record, record.played)
    for before, after in pairwise(record.chapters):
        findings += judge_resettled(record, before, after)
    for reversal in record.reversals:
        detail = f"{reversal.originator_id} reversed bet {reversal.bet_id} without a correction"
        findings.append(Finding(Code.ACCOUNT_MISMATCH, detail, record.round_id))
    findings += _foreign_currencies(record, currencies)
    if record.is_finished:
        findings += _left_in_play(record, currencies)
    return findings


def _is_as_demanded(record: RoundRecord, currencies: Mapping[str, str]) -> bool:
    """Whether each bet was placed, settled and resolved once, in turn, with the same amounts.

    So it is with nearly every round, and looking for its faults one by one
    would cost the audit more than anything else does.
    """
    chapter, opened = record.played, record.opened
    if len(record.chapters) > 1 or record.reversals or opened is None:
        return False
    if chapter.cancelled or not chapter.is_settled:
        return False
    bets, settlements = chapter.bets.values(), chapter.settlements
    if len(settlements) != len(bets):
        return False
    streams = [f"account:{bet.account_id}" for bet in bets]
    own = opened.currency
    movements = iter(chapter.movements)
    for bet, stream in zip(bets, streams, strict=True):
        placed = next(movements, None)
        if (
            type(placed) is not StakePlaced
            or placed.bet_id != bet.bet_id
            or placed.stake_minor != bet.stake_minor
            or placed.originator_id != stream
            or currencies.get(stream, own) != own
        ):
            return False
    for bet, stream, settled in zip(bets, streams, settlements, strict=True):
        if settled.bet_id != bet.bet_id:
            return False
        resolved = next(movements, None)
        if (
            type(resolved) is not _RESOLUTIONS[settled.result]
            or resolved.bet_id != bet.bet_id
            or resolved.stake_minor != bet.stake_minor
            or resolved.originator_id != stream
            or (type(resolved) is WinPaid and resolved.win_minor != settled.win_minor)
        ):
            return False
        due_minor = settled.commission_minor
        while due_minor > 0:
            taken = next(movements, None)
            if type(taken) is not CommissionMarked and (
                type(taken) is not CommissionCharged or record.is_deferred
            ):
                return False
            if taken.bet_id != bet.bet_id or taken.originator_id != stream:
                return False
            due_minor -= taken.commission_minor
        if due_minor < 0:
            return False
    return next(movements, None) is None


def _judge_played(record: RoundRecord, chapter: Chapter) -> list[Finding]:
    """The faults of the accounts in a round as it was played, before any correction."""
    findings: list[Finding] = []
    accounts = {bet_id: f"account:{bet.account_id}" for bet_id, bet in chapter.bets.items()}
    by_bet = {bet_id: _Movements() for bet_id in chapter.bets}
    unknown: dict[str, StakeMovement] = {}
    for movement in chapter.movements:
        movements = by_bet.get(movement.bet_id)
        if movements is None:
            unknown.setdefault(movement.bet_id, movement)
        else:
            movements.see(movement, accounts[movement.bet_id])

    settled = {settlement.bet_id: settlement for settlement in reversed(chapter.settlements)}
    times = Counter(settlement.bet_id for settlement in chapter.settlements)
    for bet_id, bet in chapter.bets.items():
        account, movements = accounts[bet_id], by_bet[bet_id]
        findings += _count_resolutions(
            record, chapter, bet_id, times[bet_id], len(movements.resolved)
        )
        faults = _bet_faults(record, chapter, bet, settled.get(bet_id), movements)
        if faults:
            detail = f"bet {bet_id} of {account}: {'; '.join(faults)}"
            findings.append(Finding(Code.ACCOUNT_MISMATCH, detail, record.round_id))
    for bet_id, movement in unknown.items():
        whose = "a bet that the round does not have" if record.version else "an unknown round"
        detail = f"{movement.TOPIC} of {movement.originator_id} names bet {bet_id}: {whose}"
        findings.append(Finding(Code.ACCOUNT_MISMATCH, detail, record.round_id))
    return findings


def _foreign_currencies(record: RoundRecord, currencies: Mapping[str, str]) -> list[Finding]:
    """One finding for each bet of an account that holds another currency than the round's."""
    if record.opened is None:
        return []
    bets = {
        (bet.bet_id, bet.account_id): None
        for chapter in record.chapters
        for bet in chapter.bets.values()
    }
    own = record.opened.currency
    return [
        Finding(
            Code.ACCOUNT_MISMATCH,
            f"bet {bet_id} of account:{account_id}: it holds {currency}, the round {own}",
            record.round_id,
        )
        for bet_id, account_id in bets
        if (currency := currencies.get(f"account:{account_id}", own)) != own
    ]


def _count_resolutions(
    record: RoundRecord, chapter: Chapter, bet_id: str, settlements: int, resolutions: int
) -> list[Finding]:
    """Each stake of a finished round is resolved exactly once.

    What the round's own record shows already is not found a second time.
    """
    is_returned = chapter.is_void or bet_id in chapter.cancelled
    if chapter.is_finished and resolutions == 0 and (settlements or is_returned):
        detail = f"no account event resolved the stake of bet {bet_id}"
        return [Finding(Code.BET_UNSETTLED, detail, record.round_id)]
    if resolutions > 1 and settlements + is_returned <= 1:
        detail = f"{resolutions} account events resolved the stake of bet {bet_id}"
        return [Finding(Code.BET_SETTLED_TWICE, detail, record.round_id)]
    return []


def _bet_faults(
    record: RoundRecord,
    chapter: Chapter,
    bet: HeldBet,
    settled: BetSettled | None,
    movements: _Movements,
) -> list[str]:
    faults = [
        f"{movement.TOPIC} stands on {movement.originator_id}" for movement in movements.strangers
    ]
    if len(movements.placed) != 1:
        faults.append(f"{len(movements.placed)} stakes were placed, one is demanded")
    faults += [
        f"placed {placed.stake_minor}, the bet's stake is {bet.stake_minor}"
        for placed in movements.placed
        if placed.stake_minor != bet.stake_minor
    ]
    faults += [
        f"{resolved.TOPIC} of {resolved.stake_minor}, the bet's stake is {bet.stake_minor}"
        for resolved in movements.resolved
        if resolved.stake_minor != bet.stake_minor
    ]
    if chapter.is_void or bet.bet_id in chapter.cancelled:
        faults += _demand(movements, StakeReturned, win_minor=0, commission_minor=0)
        if not chapter.is_finished and not movements.resolved:
            faults.append("the stake of a cancelled bet was not returned")
    elif not chapter.is_finished:
        if movements.resolved or movements.charged_minor or movements.marked_minor:
            faults.append("resolved before the round was finished")
    elif settled is not None:
        faults += _demand(
            movements,
            _RESOLUTIONS[settled.result],
            win_minor=settled.win_minor,
            commission_minor=settled.commission_minor,
        )
        if movements.charged_minor and record.is_deferred:
            faults.append(f"charged {movements.charged_minor}, the rules defer commission")
    return faults


_RESOLUTIONS: dict[Result, type[_Resolution]] = {
    Result.WON: WinPaid,
    Result.LOST: StakeLost,
    Result.PUSH: StakeReturned,
    Result.RETURNED: StakeReturned,
    Result.OPEN: StakeReturned,
}


def _demand(
    movements: _Movements, kind: type[_Resolution], *, win_minor: int, commission_minor: int
) -> list[str]:
    faults: list[str] = []
    for resolved in movements.resolved:
        if type(resolved) is not kind:
            faults.append(f"{resolved.TOPIC} where {kind.TOPIC} is demanded")
        elif isinstance(resolved, WinPaid) and resolved.win_minor != win_minor:
            faults.append(f"paid a win of {resolved.win_minor}, settled with {win_minor}")
    taken_minor = movements.charged_minor + movements.marked_minor
    if taken_minor != commission_minor:
        faults.append(f"commission {taken_minor} was taken, settled with {commission_minor}")
    return faults


def _left_in_play(record: RoundRecord, currencies: Mapping[str, str]) -> list[Finding]:
    """One finding for each currency in which stakes placed and resolved differ."""
    left: Counter[str] = Counter()
    default = record.opened.currency if record.opened is not None else "?"
    movements = [
        movement
        for chapter in record.chapters
        for movement in (*chapter.reversals, *chapter.movements)
    ]
    for movement in (*movements, *record.reversals):
        currency = currencies.get(movement.originator_id, default)
        match movement:
            case StakePlaced() | SettlementReversed():
                left[currency] += movement.stake_minor
            case StakeLost() | StakeReturned() | WinPaid():
                left[currency] -= movement.stake_minor
            case CommissionCharged() | CommissionMarked():
                pass
            case _:
                assert_never(movement)
    return [
        Finding(Code.IN_PLAY_NOT_ZERO, f"{amount} {currency} left in play", record.round_id)
        for currency, amount in left.items()
        if amount
    ]
