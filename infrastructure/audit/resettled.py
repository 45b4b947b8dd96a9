"""Judges what the accounts did for a correction: the reversals, and what was settled anew."""

from collections.abc import Iterable
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

_Movement = tuple[str | int, ...]
"""What a movement did, on which stream, with which amounts in minor units."""


class _Settled:
    """A bet in force, with its settlement."""

    __slots__ = ("bet", "settled", "stream")

    def __init__(self, bet: HeldBet, settled: BetSettled) -> None:
        self.bet = bet
        self.settled = settled
        self.stream = f"account:{bet.account_id}"

    @property
    def stake(self) -> tuple[str, int]:
        return self.stream, self.bet.stake_minor

    @property
    def all_of_it(self) -> tuple[object, ...]:
        settled = self.settled
        came_to = (settled.result, settled.win_minor, settled.commission_minor)
        return (*self.stake, self.bet.bet, *came_to)


def judge_resettled(record: RoundRecord, before: Chapter, after: Chapter) -> list[Finding]:
    """The faults of the accounts in one correction.

    Each bet that it changed is reversed once and resolved once, and nothing
    else moves. Where a settlement itself is missing, the round says so.
    """
    was, becomes = _settled(before), _settled(after)
    moved: dict[str, list[StakeMovement]] = {}
    for movement in (*after.reversals, *after.movements):
        moved.setdefault(movement.bet_id, []).append(movement)
    findings: list[Finding] = []
    for bet_id in dict.fromkeys((*was, *becomes, *moved)):
        demanded = _demanded(after, was.get(bet_id), becomes.get(bet_id))
        found = moved.get(bet_id, [])
        findings += _count(record, bet_id, demanded, found)
        faults = _differences(demanded, _described(found))
        if record.is_deferred and any(isinstance(each, CommissionCharged) for each in found):
            faults.append("charged commission, the rules defer it")
        if faults:
            assert after.correction is not None
            detail = f"bet {bet_id}, correction {after.correction.correction_id}: "
            detail += "; ".join(faults)
            findings.append(Finding(Code.ACCOUNT_MISMATCH, detail, record.round_id))
    return findings


def _settled(chapter: Chapter) -> dict[str, _Settled]:
    in_force = chapter.in_force
    return {
        settled.bet_id: _Settled(in_force[settled.bet_id], settled)
        for settled in reversed(chapter.settlements)
        if settled.bet_id in in_force
    }


def _demanded(after: Chapter, was: _Settled | None, becomes: _Settled | None) -> list[_Movement]:
    """The movements that a change of a bet demands, in their order."""
    if was is not None and becomes is not None and was.all_of_it == becomes.all_of_it:
        return []
    demanded: list[_Movement] = []
    if was is not None:
        assert after.correction is not None
        settled = was.settled
        came_to = (settled.result.value, settled.win_minor, settled.commission_minor)
        demanded.append(("reversed", *was.stake, after.correction.correction_id, *came_to))
    stays = was is not None and becomes is not None and was.stake == becomes.stake
    if was is not None and not stays:
        demanded.append(("returned", *was.stake))
    if becomes is not None:
        if not stays:
            demanded.append(("placed", *becomes.stake))
        demanded += _resolution(becomes)
    return demanded


def _resolution(bet: _Settled) -> list[_Movement]:
    settled = bet.settled
    resolved: list[_Movement]
    if settled.result is Result.LOST:
        resolved = [("lost", *bet.stake)]
    elif settled.result is Result.WON:
        resolved = [("won", *bet.stake, settled.win_minor)]
    else:
        resolved = [("returned", *bet.stake)]
    if settled.commission_minor:
        resolved.append(("commission", bet.stream, settled.commission_minor))
    return resolved


def _described(movements: Iterable[StakeMovement]) -> list[_Movement]:
    """What was done; commission that was charged and marked in parts is one."""
    described: list[_Movement] = []
    for movement in movements:
        stream = movement.originator_id
        match movement:
            case StakePlaced():
                described.append(("placed", stream, movement.stake_minor))
            case StakeLost():
                described.append(("lost", stream, movement.stake_minor))
            case StakeReturned():
                described.append(("returned", stream, movement.stake_minor))
            case WinPaid():
                described.append(("won", stream, movement.stake_minor, movement.win_minor))
            case SettlementReversed():
                commission = movement.refunded_minor + movement.unmarked_minor
                came_to = (movement.result.value, movement.win_minor, commission)
                stake = (stream, movement.stake_minor)
                described.append(("reversed", *stake, movement.correction_id, *came_to))
            case CommissionCharged() | CommissionMarked():
                taken = movement.commission_minor
                if described and described[-1][:2] == ("commission", stream):
                    taken += int(described.pop()[2])
                described.append(("commission", stream, taken))
            case _:
                assert_never(movement)
    return described


_RESOLVED = {"lost", "returned", "won"}


def _count(
    record: RoundRecord, bet_id: str, demanded: list[_Movement], found: list[StakeMovement]
) -> list[Finding]:
    """A stake that is in play again is resolved exactly once."""
    wanted = sum(movement[0] in _RESOLVED for movement in demanded)
    resolved = sum(isinstance(movement, StakeLost | StakeReturned | WinPaid) for movement in found)
    if resolved == wanted:
        return []
    code = Code.BET_UNSETTLED if resolved < wanted else Code.BET_SETTLED_TWICE
    detail = f"bet {bet_id} was resolved {resolved} times by a correction that demands {wanted}"
    return [Finding(code, detail, record.round_id)]


def _differences(demanded: list[_Movement], found: list[_Movement]) -> list[str]:
    if demanded == found:
        return []
    missing = [movement for movement in demanded if movement not in found]
    extra = [movement for movement in found if movement not in demanded]
    faults = [f"{_named(movement)} is missing" for movement in missing]
    faults += [f"{_named(movement)} was not demanded" for movement in extra]
    return faults or ["its movements come in another order, or more than once"]


def _named(movement: _Movement) -> str:
    return " ".join(map(str, movement))
