"""Judges one round's own record against the rules that were recorded with it."""

from collections.abc import Iterator, Mapping

from domain.bets import RETURNED, BetKind, Deal, Result, Settlement, is_undecidable
from domain.cards import DECK, Card
from domain.round import BetSettled, RoundCorrected, RoundResolved
from domain.rules import Rules
from domain.tableau import Hand, Ruling, judge
from infrastructure.audit.corrections import judge_corrections
from infrastructure.audit.findings import Code, Finding
from infrastructure.audit.record import Chapter, HeldBet, RoundRecord

# By themselves: Python 3.11 finds a member of an enumeration by a function, each time.
_WON = Result.WON
_PLAYER, _BANKER = Hand.PLAYER, Hand.BANKER

_FACES = frozenset(DECK)
_MISSING = {
    Hand.PLAYER: Code.PLAYER_THIRD_CARD_MISSING,
    Hand.BANKER: Code.BANKER_THIRD_CARD_MISSING,
}
_UNEXPECTED = {
    Hand.PLAYER: Code.PLAYER_THIRD_CARD_UNEXPECTED,
    Hand.BANKER: Code.BANKER_THIRD_CARD_UNEXPECTED,
}


def judge_round(record: RoundRecord) -> list[Finding]:
    """The faults that a round's own stream shows, as it was played and after each correction.

    A deal is judged once it was declared complete. Of a void round nothing
    counts but that no bet was settled.
    """
    findings = [Finding(Code.STREAM_GAP, gap, record.round_id) for gap in record.gaps]
    for chapter in record.chapters:
        deal = None
        if chapter.is_settled or (chapter.resolved is not None and not chapter.is_void):
            deal = _judge_deal(chapter, record.round_id, findings)
        if chapter.bets or chapter.gone or chapter.settlements:
            _judge_settlements(record, chapter, deal, findings)
    return findings + judge_corrections(record)


def judge_rules(record: RoundRecord, tables: Mapping[str, Mapping[int, Rules]]) -> list[Finding]:
    """Whether the rules recorded with a round are those of its table in that version.

    Of a table that was not seen there is nothing to compare with.
    """
    opened = record.opened
    if opened is None or opened.table_id not in tables:
        return []
    rules = tables[opened.table_id].get(opened.rules_version)
    # Equal rules are mostly the same object, and comparing them takes long.
    if rules is opened.rules or rules == opened.rules:
        return []
    detail = f"the rules are not version {opened.rules_version} of table {opened.table_id}"
    return [Finding(Code.RULES_MISMATCH, detail, record.round_id)]


def cards_judged_as_dealt(record: RoundRecord) -> list[Card]:
    """The cards that the round took from its shoe: without the third ones that are forbidden.

    Where the tableau has no say (a deal called off, or with a card missing)
    these are all the cards there.
    """
    now = record.now
    if now.is_void or len(now.player) < 2 or len(now.banker) < 2:
        return now.dealt
    unexpected = _ruling(now).unexpected
    player = now.player[: 2 if _PLAYER in unexpected else 3]
    banker = now.banker[: 2 if _BANKER in unexpected else 3]
    return player + banker


def _ruling(chapter: Chapter) -> Ruling:
    """What the tableau says of the cards; asked for the round, its shoe and its deal."""
    cards = len(chapter.player), len(chapter.banker)
    if chapter.ruling is None or chapter.ruled != cards:
        chapter.ruled = cards
        chapter.ruling = judge(
            [card.points for card in chapter.player[:3]],
            [card.points for card in chapter.banker[:3]],
        )
    return chapter.ruling


def _judge_deal(chapter: Chapter, round_id: str, findings: list[Finding]) -> Deal | None:
    """Adds the faults of cards, totals and outcome; the ruled deal, unless a card is missing."""
    player, banker = chapter.player, chapter.banker
    if min(len(player), len(banker)) < 2:
        findings += [
            Finding(_MISSING[hand], f"the {hand.value} hand has {len(cards)} cards", round_id)
            for hand, cards in ((_PLAYER, player), (_BANKER, banker))
            if len(cards) < 2
        ]
        return None
    ruling = _ruling(chapter)
    if ruling.missing is not None or ruling.unexpected or max(len(player), len(banker)) > 3:
        findings += _third_card_faults(chapter, ruling, round_id)
    if ruling.missing is not None:
        return None
    deal = Deal.ruled(ruling, player, banker)
    _judge_declared(chapter.resolved, deal, round_id, findings)
    return deal


def _third_card_faults(chapter: Chapter, ruling: Ruling, round_id: str) -> Iterator[Finding]:
    """One fault for each hand that has a card too many, and one for a card that is missing."""
    player, banker = chapter.player, chapter.banker
    two = f"two-card totals player {sum(_points(player[:2])) % 10}, "
    two += f"banker {sum(_points(banker[:2])) % 10}"
    for hand, cards in ((_PLAYER, player), (_BANKER, banker)):
        if hand in ruling.unexpected or len(cards) > 3:
            card = cards[2 if hand in ruling.unexpected else 3]
            detail = f"{card} for the {hand.value} hand is forbidden ({two})"
            yield Finding(_UNEXPECTED[hand], detail, round_id)
    if ruling.missing is not None:
        detail = f"the {ruling.missing.value} hand had to draw ({two})"
        yield Finding(_MISSING[ruling.missing], detail, round_id)


def _judge_declared(
    declared: RoundResolved | RoundCorrected | None,
    ruled: Deal,
    round_id: str,
    findings: list[Finding],
) -> None:
    if declared is None:
        detail = f"no outcome was declared, ruled {ruled.outcome.value}"
        findings.append(Finding(Code.OUTCOME_MISMATCH, detail, round_id))
        return
    if declared.player_total != ruled.player_total:
        detail = f"recorded {declared.player_total}, ruled {ruled.player_total}"
        findings.append(Finding(Code.PLAYER_TOTAL_MISMATCH, detail, round_id))
    if declared.banker_total != ruled.banker_total:
        detail = f"recorded {declared.banker_total}, ruled {ruled.banker_total}"
        findings.append(Finding(Code.BANKER_TOTAL_MISMATCH, detail, round_id))
    if declared.outcome is not ruled.outcome:
        detail = f"recorded {declared.outcome.value}, ruled {ruled.outcome.value}"
        findings.append(Finding(Code.OUTCOME_MISMATCH, detail, round_id))


def _judge_settlements(
    record: RoundRecord, chapter: Chapter, deal: Deal | None, findings: list[Finding]
) -> None:
    """Adds the faults of each bet's settlement; without a ruled deal, of their number only."""
    if deal is not None and _is_as_ruled(record, chapter, deal):
        return
    settled: dict[str, list[BetSettled]] = {}
    for settlement in chapter.settlements:
        settled.setdefault(settlement.bet_id, []).append(settlement)
    for bet_id, bet in chapter.bets.items():
        settlements = settled.pop(bet_id, [])
        is_returned = chapter.is_void or bet_id in chapter.cancelled
        if len(settlements) + is_returned > 1:
            how = f"was settled {len(settlements)} times" + (
                " and returned with the round or by a cancellation" if is_returned else ""
            )
            findings.append(Finding(Code.BET_SETTLED_TWICE, f"bet {bet_id} {how}", record.round_id))
        elif not settlements:
            if chapter.is_settled and not is_returned:
                detail = f"the round is settled without bet {bet_id}"
                findings.append(Finding(Code.BET_UNSETTLED, detail, record.round_id))
            continue
        if record.opened is not None:
            for settlement in settlements:
                findings += _judge_settlement(
                    bet, settlement, record.opened.rules, deal, record.round_id
                )
    for bet_id, bet in chapter.gone.items():
        findings += _judge_gone(bet, settled.pop(bet_id, []), record.round_id)
    for bet_id in settled:
        detail = f"bet {bet_id} was settled and never placed"
        findings.append(Finding(Code.PAYOUT_MISMATCH, detail, record.round_id))


def _is_as_ruled(record: RoundRecord, chapter: Chapter, deal: Deal) -> bool:
    """Whether every bet was settled once, in turn and as it should be: nearly always so."""
    opened, bets = record.opened, chapter.bets
    if opened is None or chapter.cancelled or chapter.gone or chapter.is_void:
        return False
    if len(chapter.settlements) != len(bets) or not _FACES.issuperset(
        deal.player_cards + deal.banker_cards
    ):
        return False
    rules, odds = opened.rules, opened.rules.odds
    # What has not won comes to the same whatever its stake.
    not_won: dict[BetKind, Settlement] = {}
    for bet, settlement in zip(bets.values(), chapter.settlements, strict=True):
        if settlement.bet_id != bet.bet_id or settlement.stake_minor != bet.stake_minor:
            return False
        if bet.bet not in odds:
            return False
        ruled = not_won.get(bet.bet)
        if ruled is None:
            ruled = rules.settle(bet.bet, bet.stake_minor, deal)
            if ruled.result is not _WON:
                not_won[bet.bet] = ruled
        if (
            settlement.result is not ruled.result
            or settlement.win_minor != ruled.win_minor
            or settlement.commission_minor != ruled.commission_minor
        ):
            return False
    return True


def _judge_gone(bet: HeldBet, settlements: list[BetSettled], round_id: str) -> list[Finding]:
    """A bet that a correction took out comes to nothing: its stake was returned, once."""
    if not settlements:
        detail = f"bet {bet.bet_id} was corrected away and not returned"
        return [Finding(Code.BET_UNSETTLED, detail, round_id)]
    if len(settlements) > 1:
        detail = f"bet {bet.bet_id} was returned {len(settlements)} times"
        return [Finding(Code.BET_SETTLED_TWICE, detail, round_id)]
    (settled,) = settlements
    recorded = Settlement(settled.result, settled.win_minor, settled.commission_minor)
    if (recorded, settled.stake_minor) == (RETURNED, bet.stake_minor):
        return []
    detail = f"bet {bet.bet_id}: recorded {_came_to(recorded)}, corrected to returned"
    return [Finding(Code.PAYOUT_MISMATCH, detail, round_id)]


def _judge_settlement(
    bet: HeldBet, settled: BetSettled, rules: Rules, deal: Deal | None, round_id: str
) -> list[Finding]:
    findings: list[Finding] = []
    faults: list[str] = []
    if settled.stake_minor != bet.stake_minor:
        faults.append(f"recorded stake {settled.stake_minor}, placed {bet.stake_minor}")
    if bet.bet not in rules.odds:
        faults.append(f"the round's rules offer no {bet.bet.value} bet")
    elif deal is not None and _is_decidable(bet, deal):
        ruled = rules.settle(bet.bet, bet.stake_minor, deal)
        if (settled.result, settled.win_minor) != (ruled.result, ruled.win_minor):
            recorded = Settlement(settled.result, settled.win_minor)
            faults.append(f"recorded {_came_to(recorded)}, ruled {_came_to(ruled)}")
        if settled.commission_minor != ruled.commission_minor:
            detail = (
                f"bet {bet.bet_id}: recorded {settled.commission_minor}, "
                f"ruled {ruled.commission_minor}"
            )
            findings.append(Finding(Code.COMMISSION_MISMATCH, detail, round_id))
    if faults:
        detail = f"bet {bet.bet_id}: {'; '.join(faults)}"
        findings.insert(0, Finding(Code.PAYOUT_MISMATCH, detail, round_id))
    return findings


def _is_decidable(bet: HeldBet, deal: Deal) -> bool:
    """A pair on a card that nobody could read has no ruled result."""
    player, banker = deal.player_cards[:2], deal.banker_cards[:2]
    looked_at = {BetKind.PLAYER_PAIR: player, BetKind.BANKER_PAIR: banker}
    return not any(
        is_undecidable(bet.bet, card) for card in looked_at.get(bet.bet, player + banker)
    )


def _came_to(settlement: Settlement) -> str:
    won = f" {settlement.win_minor}" if settlement.win_minor else ""
    return settlement.result.value + won


def _points(cards: list[Card]) -> list[int]:
    return [card.points for card in cards]
