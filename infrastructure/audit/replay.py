"""Replays a round from its events alone, to any version, step by step."""

from collections.abc import Sequence
from typing import Any, assert_never

from domain.bets import CASES, BetKind
from domain.cards import Card
from domain.round import (
    BetCancelled,
    BetPlaced,
    BetSettled,
    BettingClosed,
    CardDealt,
    Round,
    RoundEvent,
    RoundOpened,
    RoundResolved,
    RoundSettled,
    RoundState,
    RoundVoided,
    ThirdCardDrawn,
)
from domain.rules import Rules
from domain.tableau import Hand, banker_draws, is_natural, player_draws, total
from infrastructure.audit.findings import Finding
from infrastructure.audit.judgement import judge_round
from infrastructure.audit.record import RoundRecord
from infrastructure.commands.handlers import bet_line
from infrastructure.store.mapper import facts

_COMMON = ("at", "actor", "key")


def replay(
    events: Sequence[RoundEvent],
    *,
    to_version: int | None = None,
    findings: Sequence[Finding] = (),
) -> dict[str, Any] | None:
    """The round as it stood at a version; None where it was not opened by then.

    The round's own record is judged once it is finished; `findings` are added
    to that, such as those of the accounts. Nothing in the answer depends on
    the store that the events came from.
    """
    kept = [
        event for event in events if to_version is None or event.originator_version <= to_version
    ]
    if not kept:
        return None
    round_ = Round(kept[0].originator_id)
    record = RoundRecord(round_.name)
    steps: list[dict[str, Any]] = []
    for event in kept:
        steps.append(_step(event, before=round_))
        round_ = round_.apply(event)
        record.see(0, event)
    if round_.state is RoundState.UNOPENED:
        return None
    own = judge_round(record) if round_.is_finished else []
    declared = round_.declared
    return {
        "round_id": round_.name,
        "table_id": round_.table_id,
        "shoe_id": round_.shoe_id,
        "state": round_.state.value,
        "version": round_.version,
        "rules": _rules(round_.rules),
        "player": {
            "cards": _named(round_.player),
            "total": None if declared is None else declared.player_total,
        },
        "banker": {
            "cards": _named(round_.banker),
            "total": None if declared is None else declared.banker_total,
        },
        "outcome": None if declared is None else declared.outcome.value,
        "bets": [bet_line(bet, round_.currency) for bet in round_.bets.values()],
        "steps": steps,
        "findings": _unique([*own, *findings]),
    }


def _step(event: RoundEvent, *, before: Round) -> dict[str, Any]:
    own = facts(event)
    at = own["at"]
    for name in _COMMON:
        del own[name]
    if isinstance(event, RoundOpened):
        own["rules"] = _rules(event.rules)
    step = {
        "version": event.originator_version,
        "event": event.TOPIC,
        "at": at,
        "actor": event.actor,
        **own,
    }
    rule = _rule(event, before)
    if rule is not None:
        step["rule"] = rule
    return step


def _rule(event: RoundEvent, before: Round) -> str | None:
    """Why a third card was drawn, or, once the deal is complete, why one was not."""
    if len(before.player) < 2 or len(before.banker) < 2:
        return None
    match event:
        case ThirdCardDrawn():
            draws, why = _reason(event.hand, before)
            return why if draws else f"{why}; the tableau forbids this card and it does not count"
        case RoundResolved():
            hands = {Hand.PLAYER: before.player, Hand.BANKER: before.banker}
            two = [total(_points(cards[:2])) for cards in hands.values()]
            if max(len(cards) for cards in hands.values()) == 2 and any(map(is_natural, two)):
                return _reason(Hand.PLAYER, before)[1]
            reasons = []
            for hand, cards in hands.items():
                if len(cards) == 2:
                    draws, why = _reason(hand, before)
                    reasons.append(f"{why}; its third card is missing" if draws else why)
            return "; ".join(reasons) or None
        case (
            RoundOpened()
            | BetPlaced()
            | BetCancelled()
            | BettingClosed()
            | CardDealt()
            | BetSettled()
            | RoundSettled()
            | RoundVoided()
        ):
            return None
        case _:
            assert_never(event)


def _reason(hand: Hand, before: Round) -> tuple[bool, str]:
    """Whether the tableau lets a hand draw, and the rule in a sentence."""
    player, banker = total(_points(before.player[:2])), total(_points(before.banker[:2]))
    for name, two in (("Player", player), ("Banker", banker)):
        if is_natural(two):
            return False, f"{name} has a natural {two}: neither hand draws"
    player_may_draw = player_draws(player, banker)
    if hand is Hand.PLAYER:
        verb = "draws on 0-5" if player_may_draw else "stands on 6 and 7"
        return player_may_draw, f"Player has {player} and {verb}"
    if not player_may_draw or len(before.player) == 2:
        draws = banker_draws(player, banker, None)
        verb = "draws on 0-5" if draws else "stands on 6 and 7"
        return draws, f"Player stood, Banker has {banker} and {verb}"
    third = before.player[2].points
    draws = banker_draws(player, banker, third)
    on = [points for points in range(10) if banker_draws(player, banker, points)]
    verb = "draws" if draws else "stands"
    return draws, (
        f"Banker has {banker}, which draws {_thirds(on)}: the third card counts {third}, "
        f"so Banker {verb}"
    )


def _thirds(points: list[int]) -> str:
    """The Player's third cards that make the Banker draw, in words."""
    if not points:
        return "on none of the Player's third cards"
    if len(points) == 10:
        return "on any third card of the Player"
    if len(points) == 9:
        (left_out,) = set(range(10)) - set(points)
        return f"on any third card of the Player but {left_out}"
    return f"on a third card of the Player of {points[0]}-{points[-1]}"


def _rules(rules: Rules) -> dict[str, Any]:
    """The rules as the table gives them, the odds in an order of their own."""
    dumped = rules.model_dump(mode="json", exclude_none=True)
    odds = dumped["odds"]
    dumped["odds"] = {
        kind.value: {case: odds[kind.value][case] for case in CASES[kind]}
        if kind in CASES
        else odds[kind.value]
        for kind in BetKind
        if kind.value in odds
    }
    return dumped


def _unique(findings: list[Finding]) -> list[dict[str, str]]:
    """Findings without those that stand there already."""
    return [
        {"code": code.value, "detail": detail}
        for code, detail in dict.fromkeys((finding.code, finding.detail) for finding in findings)
    ]


def _named(cards: Sequence[Card]) -> list[str]:
    return [str(card) for card in cards]


def _points(cards: Sequence[Card]) -> list[int]:
    return [card.points for card in cards]
