"""The page of a round: replayed card by card, with the money, the corrections and the verdict."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, assert_never, cast

from domain.event import Recorded
from domain.round import (
    BetCancelled,
    BetPlaced,
    BetSettled,
    BettingClosed,
    CardDealt,
    CorrectionProposed,
    CorrectionRejected,
    RoundCorrected,
    RoundEvent,
    RoundOpened,
    RoundResolved,
    RoundSettled,
    RoundVoided,
    ThirdCardDrawn,
)
from infrastructure.audit.audit import Scope
from infrastructure.audit.findings import Report
from infrastructure.audit.replay import replay
from infrastructure.audit.scoped import audit_scope
from infrastructure.pages.formats import Formats
from infrastructure.pages.ledger import EVENTS_JUDGED_AT_ONCE, AskedLedger, NotThere
from infrastructure.pages.words import bet_name
from projections import postings
from projections.postings import Posting, Wanted


@dataclass(frozen=True, slots=True)
class Step:
    """An event of the round in words; `is_ahead` where the page shows an earlier version."""

    version: int
    position: int
    at: datetime
    actor: str
    said: str
    card: str | None
    rule: str | None
    is_ahead: bool


@dataclass(frozen=True, slots=True)
class RoundView:
    """What the page of a round shows.

    `round` is the replay at `version`, of `versions`. `recorded_until` is the
    latest position that was recorded before the round went on from there; the
    `postings` are those up to it. `report` is None where the round was not
    judged together with the accounts' events.
    """

    round: dict[str, Any]
    currency: str
    number: int
    rules_version: int
    version: int
    versions: int
    steps: tuple[Step, ...]
    postings: tuple[Posting, ...]
    recorded_until: int
    report: Report | None
    forbidden: tuple[str, ...]

    @property
    def is_latest(self) -> bool:
        """Whether it is shown as it stands today."""
        return self.version == self.versions


def round_view(
    ledger: AskedLedger,
    round_id: str,
    formats: Formats,
    *,
    version: int | None = None,
    may_audit: bool,
    is_audit_asked: bool = False,
) -> RoundView:
    """Replays a round to a version, and judges it where that is quick or was asked for.

    Its own record is always judged, the events of accounts, shoe and table beside
    it for those who may see them.
    """
    recorded = ledger.reader.stream(f"round:{round_id}")
    events = cast(list[RoundEvent], [each.event for each in recorded])
    whole = replay(events)
    opened = next((event for event in events if isinstance(event, RoundOpened)), None)
    if whole is None or opened is None:
        raise NotThere(f"There is no round {round_id}.")
    version = len(events) if version is None else version
    shown = replay(events, to_version=version)
    if shown is None or version > len(events):
        raise NotThere(f"Round {round_id} has no version {version} in which it was open.")
    head = ledger.reader.head()
    until = recorded[version].position - 1 if version < len(recorded) else head
    is_judged = may_audit and (is_audit_asked or head <= EVENTS_JUDGED_AT_ONCE)
    return RoundView(
        round=shown,
        currency=opened.currency,
        number=opened.number,
        rules_version=opened.rules_version,
        version=version,
        versions=len(events),
        steps=_steps(recorded, whole["steps"], formats, opened.currency, version),
        postings=tuple(
            postings.postings(ledger.connection, Wanted(until=until, round_id=round_id))
        ),
        recorded_until=until,
        report=audit_scope(ledger.connection, Scope(round=round_id)) if is_judged else None,
        forbidden=_forbidden(shown),
    )


def _forbidden(shown: dict[str, Any]) -> tuple[str, ...]:
    """The hands that hold a third card which the tableau does not allow."""
    codes = {finding["code"] for finding in shown["findings"]}
    return tuple(hand for hand in ("player", "banker") if f"{hand}_third_card_unexpected" in codes)


def _steps(
    recorded: Sequence[Recorded],
    replayed: Sequence[dict[str, Any]],
    formats: Formats,
    currency: str,
    version: int,
) -> tuple[Step, ...]:
    return tuple(
        Step(
            version=event.originator_version,
            position=position,
            at=event.at,
            actor=event.actor,
            said=told(cast(RoundEvent, event), formats, currency),
            card=step.get("card"),
            rule=step.get("rule"),
            is_ahead=event.originator_version > version,
        )
        for (position, event), step in zip(recorded, replayed, strict=True)
    )


def told(event: RoundEvent, formats: Formats, currency: str) -> str:
    """What happened, in a sentence without its full stop."""

    def money(amount_minor: int) -> str:
        return formats.money(amount_minor, currency)

    match event:
        case RoundOpened():
            source = f", as {event.recorded_from} recorded it" if event.recorded_from else ""
            return f"Round {event.number} of the shoe opened for bets{source}"
        case BetPlaced():
            on = bet_name(event.bet.value)
            return (
                f"{event.account_id} bets {money(event.stake_minor)} on {on} (bet {event.bet_id})"
            )
        case BetCancelled():
            return f"Bet {event.bet_id} was taken back"
        case BettingClosed():
            return "No more bets"
        case CardDealt():
            return _irregular(f"{event.hand.value.capitalize()} is dealt", event.irregular)
        case ThirdCardDrawn():
            said = f"{event.hand.value.capitalize()} draws a third card"
            return _irregular(said, event.irregular)
        case RoundResolved():
            totals = f"Player {event.player_total}, Banker {event.banker_total}"
            return f"{totals}: {_outcome(event.outcome.value)}"
        case BetSettled():
            return f"Bet {event.bet_id}: {_settled(event, formats, currency)}"
        case RoundSettled():
            return "Every bet is settled"
        case RoundVoided():
            return f"The round is void, every stake goes back: {event.reason}"
        case CorrectionProposed():
            asked = _asked(event, money)
            return (
                f"{event.actor} proposes correction {event.correction_id}, {event.reason}: {asked}"
            )
        case CorrectionRejected():
            return f"{event.actor} rejects correction {event.correction_id}"
        case RoundCorrected():
            return f"{event.actor} approves correction {event.correction_id}: {_holds(event)}"
        case _:
            assert_never(event)


def _asked(event: CorrectionProposed, money: Callable[[int], str]) -> str:
    """What a correction wants to hold."""
    if event.is_void:
        return "the round is to be void"
    wanted = []
    if event.cards is not None:
        wanted.append(f"the cards {' '.join(map(str, event.cards))}")
    if event.bets is not None:
        bets = [
            f"{bet.bet_id} of {bet.account_id}, {money(bet.stake_minor)} on"
            f" {bet_name(bet.bet.value)}"
            for bet in event.bets
        ]
        wanted.append(f"the bets {'; '.join(bets)}" if bets else "no bets")
    return f"{' and '.join(wanted)} are to hold"


def _holds(event: RoundCorrected) -> str:
    """What holds after a correction."""
    if event.is_void:
        return "the round is void"
    player, banker = (" ".join(map(str, cards)) for cards in (event.player, event.banker))
    return f"Player {player}, Banker {banker}, {_outcome(event.outcome.value)}"


def _irregular(said: str, irregular: str | None) -> str:
    return said if irregular is None else f"{said}, irregularly: {irregular}"


def _outcome(outcome: str) -> str:
    return "a tie" if outcome == "tie" else f"{outcome.capitalize()} wins"


def _settled(event: BetSettled, formats: Formats, currency: str) -> str:
    parts = [event.result.value]
    if event.win_minor:
        parts.append(f"wins {formats.money(event.win_minor, currency)}")
    if event.commission_minor:
        parts.append(f"commission {formats.money(event.commission_minor, currency)}")
    return ", ".join(parts)
