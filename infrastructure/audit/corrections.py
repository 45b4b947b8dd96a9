"""Judges a round's corrections: who decided, what was asked for, and what was made of it.

What a correction says that holds is judged as a round of its own elsewhere;
here it is set against its proposal and against what held before.
"""

from collections import Counter
from collections.abc import Iterable

from domain.cards import Card
from domain.round import CorrectionProposed, RoundCorrected
from infrastructure.audit.findings import Code, Finding
from infrastructure.audit.record import Chapter, HeldBet, RoundRecord

_Particulars = tuple[str, str, str, int]


def judge_corrections(record: RoundRecord) -> list[Finding]:
    """The faults of a round's corrections, one finding for each that has any."""
    if len(record.chapters) == 1 and not record.proposals and not record.rejections:
        return []
    faults: list[str] = []
    proposals = {proposal.correction_id: proposal for proposal in record.proposals}
    decided: set[str] = set()
    for rejection in record.rejections:
        faults += _decision(rejection.correction_id, rejection.actor, proposals, decided)
    for before, after in zip(record.chapters, record.chapters[1:], strict=False):
        assert after.correction is not None
        corrected = after.correction
        faults += _decision(corrected.correction_id, corrected.actor, proposals, decided)
        faults += [
            f"correction {corrected.correction_id} {fault}"
            for fault in _compare(before, corrected, proposals.get(corrected.correction_id))
        ]
    return [Finding(Code.CORRECTION_MISMATCH, fault, record.round_id) for fault in faults]


def _decision(
    correction_id: str, actor: str, proposals: dict[str, CorrectionProposed], decided: set[str]
) -> list[str]:
    """A correction is proposed by one actor and decided once, by another."""
    faults = []
    proposal = proposals.get(correction_id)
    if proposal is None:
        faults.append(f"correction {correction_id} was decided and never proposed")
    elif proposal.actor == actor:
        faults.append(f"correction {correction_id} was proposed and decided by {actor}")
    if correction_id in decided:
        faults.append(f"correction {correction_id} was decided twice")
    decided.add(correction_id)
    return faults


def _compare(
    before: Chapter, corrected: RoundCorrected, proposal: CorrectionProposed | None
) -> list[str]:
    faults = []
    if corrected.replaces_version != before.version:
        faults.append(f"replaces version {corrected.replaces_version}, not {before.version}")
    if not _fit(corrected):
        faults.append("has other cards in the hands than were dealt")
    if proposal is None:
        return faults
    if corrected.proposed_by != proposal.actor:
        faults.append(f"names {corrected.proposed_by}, it was proposed by {proposal.actor}")
    if corrected.is_void != proposal.is_void:
        faults.append("is not the void, or no void, that was proposed")
    if corrected.cards != (proposal.cards or tuple(before.dealt)):
        faults.append("holds other cards than were proposed")
    if proposal.cards is None and not _same_deal(before, corrected):
        faults.append("changes hands, totals or outcome, which were not in question")
    bets = before.in_force.values() if proposal.bets is None else proposal.bets
    if _particulars(corrected.bets) != _particulars(() if proposal.is_void else bets):
        faults.append("holds other bets than were proposed")
    return faults


def _same_deal(before: Chapter, corrected: RoundCorrected) -> bool:
    declared = before.resolved
    return (
        declared is not None
        and (tuple(before.player), tuple(before.banker)) == (corrected.player, corrected.banker)
        and (declared.player_total, declared.banker_total, declared.outcome)
        == (corrected.player_total, corrected.banker_total, corrected.outcome)
    )


def _fit(corrected: RoundCorrected) -> bool:
    """Whether the first four cards went in turn, and the others to either hand."""
    cards, player, banker = corrected.cards, corrected.player, corrected.banker
    thirds: Counter[Card] = Counter((*player[2:], *banker[2:]))
    return (player[:2], banker[:2]) == (cards[0:4:2], cards[1:4:2]) and Counter(cards[4:]) == thirds


def _particulars(bets: Iterable[HeldBet]) -> set[_Particulars]:
    return {(bet.bet_id, bet.account_id, bet.bet.value, bet.stake_minor) for bet in bets}
