"""Judges a shoe: its numbering, its cards, its seed, and what its rounds say of it."""

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import assert_never

from domain.account import CommissionMarked
from domain.cards import FACE_DOWN, TEN_VALUED, UNKNOWN, Card, burn_count, excess_cards
from domain.event import Unreadable
from domain.shoe import (
    CardsBurned,
    CardsDrawn,
    CutCardReached,
    DrawCorrected,
    RoundStarted,
    ShoeClosed,
    ShoeEvent,
    ShoeOpened,
)
from domain.shuffle import SCHEME, SEED_BYTES, commitment, shuffled
from infrastructure.audit.findings import Code, Finding
from infrastructure.audit.judgement import cards_judged_as_dealt
from infrastructure.audit.record import Chapter, RoundRecord, describe_gap, describe_unreadable

DECKS = (6, 8)
"""How many decks a shoe may hold."""


class ShoeRecord:
    """What was recorded of one shoe; `claimed_by` are the rounds that say they are its own."""

    __slots__ = (
        "burned",
        "claimed_by",
        "closed",
        "closed_position",
        "corrected",
        "drawn",
        "gaps",
        "late",
        "opened",
        "opened_position",
        "shoe_id",
        "started",
        "version",
    )

    def __init__(self, shoe_id: str) -> None:
        self.shoe_id = shoe_id
        self.version = 0
        self.gaps: list[str] = []
        self.late: list[ShoeEvent] = []
        self.opened: ShoeOpened | None = None
        self.opened_position = 0
        self.burned: list[Card] = []
        self.started: list[RoundStarted] = []
        self.drawn: list[CardsDrawn] = []
        self.corrected: list[DrawCorrected] = []
        self.closed: ShoeClosed | None = None
        self.closed_position = 0
        self.claimed_by: list[str] = []

    @property
    def marked(self) -> set[str]:
        """The accounts for which the shoe's rounds marked commission."""
        drawn = [each.marked for each in self.drawn] + [each.marked for each in self.corrected]
        return {name for names in drawn for name in names or ()}

    def see(self, position: int, event: ShoeEvent) -> None:
        """Takes in the next event of the shoe's stream."""
        self._advance(event.originator_version)
        if self.closed is not None and not isinstance(event, DrawCorrected):
            self.late.append(event)
        match event:
            case CardsDrawn():
                self.drawn.append(event)
            case RoundStarted():
                self.started.append(event)
            case ShoeOpened():
                self.opened, self.opened_position = event, position
            case CardsBurned():
                self.burned += event.cards
            case DrawCorrected():
                self.corrected.append(event)
            case CutCardReached():
                pass
            case ShoeClosed():
                self.closed, self.closed_position = event, position
            case _:
                assert_never(event)

    def see_unreadable(self, event: Unreadable) -> None:
        """Takes in that an event of the stream cannot be decoded."""
        self._advance(event.version)
        self.gaps.append(describe_unreadable(event))

    def _advance(self, version: int) -> None:
        if version != self.version + 1:
            self.gaps.append(describe_gap(f"shoe:{self.shoe_id}", version, after=self.version))
        self.version = version


def judge_shoe(shoe: ShoeRecord, rounds: Mapping[str, RoundRecord]) -> list[Finding]:
    """The faults of a whole shoe; `rounds` has those that it started and that exist."""
    findings = [Finding(Code.STREAM_GAP, gap, shoe_id=shoe.shoe_id) for gap in shoe.gaps]
    findings += [after_closing(event) for event in shoe.late]
    if shoe.version and shoe.opened is None:
        findings.append(_gap(shoe, "the shoe was never opened"))
    findings += _numbering(shoe)
    findings += judge_places(shoe, rounds)
    if shoe.opened is not None:
        findings += _order(shoe, shoe.opened)
    return findings


def judge_cards(shoe: ShoeRecord, rounds: Mapping[str, RoundRecord]) -> list[Finding]:
    """What a shoe's corrections say, and how often each card came out as things stand.

    Unlike the rest, this changes with a correction that comes after the shoe was closed.
    """
    findings = _corrected(shoe, rounds)
    if shoe.opened is not None:
        findings += _card_counts(shoe, shoe.opened.decks, rounds)
    return findings


def judge_places(shoe: ShoeRecord, rounds: Mapping[str, RoundRecord]) -> list[Finding]:
    """Where a shoe and its rounds tell different stories."""
    findings: list[Finding] = []
    started = {start.round_id: start for start in shoe.started}
    for start in shoe.started:
        record = rounds.get(start.round_id)
        if record is None or record.opened is None:
            findings.append(_gap(shoe, "started a round that was never opened", start.round_id))
            continue
        opened = record.opened
        if opened.shoe_id != shoe.shoe_id:
            findings.append(_gap(shoe, f"the round names shoe {opened.shoe_id}", start.round_id))
        if opened.number != start.number:
            detail = f"the round is number {opened.number}, the shoe's number {start.number}"
            findings.append(_gap(shoe, detail, start.round_id))
        if shoe.opened is not None and opened.table_id != shoe.opened.table_id:
            detail = f"played at table {opened.table_id}, the shoe is on {shoe.opened.table_id}"
            findings.append(_gap(shoe, detail, start.round_id))
    findings += [
        _gap(shoe, "the shoe never started this round", round_id)
        for round_id in shoe.claimed_by
        if round_id not in started
    ]
    return findings + _drawn(shoe, started, rounds)


def _drawn(
    shoe: ShoeRecord, started: Mapping[str, RoundStarted], rounds: Mapping[str, RoundRecord]
) -> list[Finding]:
    """Each round draws once, when it is finished, the cards that it says were dealt."""
    findings: list[Finding] = []
    ended: set[str] = set()
    for drawn in shoe.drawn:
        round_id = drawn.round_id
        record = rounds.get(round_id)
        if round_id not in started:
            findings.append(_gap(shoe, "drew for a round that it never started", round_id))
        elif round_id in ended:
            findings.append(_gap(shoe, "drew twice for this round", round_id))
        elif record is not None:
            if not record.is_finished:
                findings.append(_gap(shoe, "ended a round that is not finished", round_id))
            dealt = record.played.dealt
            if tuple(dealt) != drawn.cards:
                detail = f"drew {_named(drawn.cards)}, the round was dealt {_named(dealt)}"
                findings.append(_gap(shoe, detail, round_id))
            if (drawn.marked or ()) != _marked(record.played):
                detail = f"marked {_listed(drawn.marked)}, the accounts say otherwise"
                findings.append(_gap(shoe, detail, round_id))
        ended.add(round_id)
    last = shoe.started[-1].round_id if shoe.started and shoe.closed is None else None
    for round_id in started:
        record = rounds.get(round_id)
        is_over = round_id != last or (record is not None and record.is_finished)
        if is_over and round_id not in ended:
            findings.append(_gap(shoe, "never drew the cards of this round", round_id))
    return findings


def _corrected(shoe: ShoeRecord, rounds: Mapping[str, RoundRecord]) -> list[Finding]:
    """Each correction of a round's cards stands on the shoe once, and nothing else does."""
    findings: list[Finding] = []
    told: dict[tuple[str, str], DrawCorrected] = {}
    for each in shoe.corrected:
        if (each.round_id, each.correction_id) in told:
            detail = f"correction {each.correction_id} was told twice"
            findings.append(_gap(shoe, detail, each.round_id))
        told[each.round_id, each.correction_id] = each
    for round_id in dict.fromkeys(start.round_id for start in shoe.started):
        record = rounds.get(round_id)
        for before, after in pairwise(() if record is None else record.chapters):
            assert after.correction is not None
            correction_id = after.correction.correction_id
            drawn = told.pop((round_id, correction_id), None)
            fault = _told(shoe, drawn, before, after)
            if fault is None and record is not None and record.has_movements:
                fault = _told_of_marks(shoe, drawn, after)
            if fault is not None:
                detail = f"correction {correction_id}: {fault}"
                findings.append(_gap(shoe, detail, round_id))
    findings += [
        _gap(shoe, f"correction {correction_id} is none of this round", round_id)
        for round_id, correction_id in told
    ]
    return findings


def _told(
    shoe: ShoeRecord, each: DrawCorrected | None, before: Chapter, after: Chapter
) -> str | None:
    """What is wrong with what a shoe was told of a correction; None where nothing is."""
    demanded: tuple[tuple[Card, ...], tuple[Card, ...]] = ((), ())
    if before.dealt != after.dealt:
        demanded = (tuple(before.dealt), tuple(after.dealt))
        if shoe.opened is not None and shoe.opened.source == "shuffled":
            return "a shuffled shoe's cards are its seed's"
    told = ((), ()) if each is None else (each.instead_of, each.cards)
    if told != demanded:
        return (
            f"drew {_named(told[1])} instead of {_named(told[0])}, "
            f"the round {_named(demanded[1])} instead of {_named(demanded[0])}"
        )
    return None


def _told_of_marks(shoe: ShoeRecord, each: DrawCorrected | None, after: Chapter) -> str | None:
    """As `_told`, of the accounts to collect from; a shoe that was closed has nothing to do."""
    was_closed = shoe.closed is not None and shoe.closed_position < after.position
    marked = () if each is None else (each.marked or ())
    if marked == (() if was_closed else _marked(after)):
        return None
    return f"marked {_listed(marked)}, the accounts say otherwise"


def _marked(chapter: Chapter) -> tuple[str, ...]:
    """The accounts for which a round, or a correction of it, marked commission."""
    names = {
        movement.originator_id.removeprefix("account:")
        for movement in chapter.movements
        if type(movement) is CommissionMarked
    }
    return tuple(sorted(names))


def _numbering(shoe: ShoeRecord) -> Iterator[Finding]:
    before = 0
    for start in shoe.started:
        if start.number != before + 1:
            yield _gap(shoe, f"round number {start.number} follows {before}", start.round_id)
        before = start.number


def _card_counts(
    shoe: ShoeRecord, decks: int, rounds: Mapping[str, RoundRecord]
) -> Iterator[Finding]:
    cards = list(shoe.burned)
    counted: set[str] = set()
    for start in shoe.started:
        record = rounds.get(start.round_id)
        if record is not None and start.round_id not in counted:
            cards += cards_judged_as_dealt(record)
            counted.add(start.round_id)
    for drawn in shoe.drawn:
        if drawn.round_id not in counted:
            cards += drawn.cards
    if len(cards) > 52 * decks:
        detail = f"{len(cards)} cards came out, {decks} decks hold {52 * decks}"
        yield Finding(Code.SHOE_OVERDRAWN, detail, shoe_id=shoe.shoe_id)
    for card, count in excess_cards(cards, decks=decks).items():
        a_deck = (4 if card[0] == TEN_VALUED else 1) * (4 if card[1] == UNKNOWN else 1)
        detail = f"{card} came out {count} times, {decks} decks hold {a_deck * decks}"
        yield Finding(Code.SHOE_CARD_EXCESS, detail, shoe_id=shoe.shoe_id)


def _order(shoe: ShoeRecord, opened: ShoeOpened) -> list[Finding]:
    """A shuffled shoe says how it was, and once it is closed its seed gives every card."""
    if opened.decks not in DECKS:
        return [_gap(shoe, f"a shoe of {opened.decks} decks is none that the game is played with")]
    published = (opened.scheme, opened.commitment, opened.seed_given)
    if opened.source == "physical":
        is_seeded = shoe.closed is not None and shoe.closed.seed is not None
        if published != (None, None, None) or is_seeded:
            return [_gap(shoe, "a physical shoe names a seed or its commitment")]
        return []
    if opened.scheme != SCHEME or opened.commitment is None or opened.seed_given is None:
        return [_gap(shoe, "a shuffled shoe must publish its scheme and its commitment")]
    if shoe.closed is None:
        return []
    seed = _read_seed(shoe.closed.seed)
    if seed is None or commitment(seed) != opened.commitment:
        return [_gap(shoe, "the seed shown is not the one that was committed to")]
    return list(_compare(shoe, shuffled(seed, opened.decks)))


def _compare(shoe: ShoeRecord, order: tuple[Card, ...]) -> Iterator[Finding]:
    """One finding for the burn and for each round whose cards are not the shuffle's."""
    turned_up = order[0]
    burned = [turned_up, *[FACE_DOWN] * burn_count(turned_up)]
    if shoe.burned != burned:
        yield _gap(shoe, f"burned {_named(shoe.burned)}, the seed gives {_named(burned)}")
    place = len(burned)
    for drawn in shoe.drawn:
        ruled = order[place : place + len(drawn.cards)]
        place += len(drawn.cards)
        if ruled != drawn.cards:
            detail = f"drew {_named(drawn.cards)}, the seed gives {_named(ruled)}"
            yield _gap(shoe, detail, drawn.round_id)


def _read_seed(seed: str | None) -> bytes | None:
    try:
        read = bytes.fromhex(seed or "")
    except ValueError:
        return None
    return read if len(read) == SEED_BYTES else None


def after_closing(event: ShoeEvent) -> Finding:
    """A shoe's event that came when the shoe was closed."""
    round_id = event.round_id if isinstance(event, RoundStarted | CardsDrawn) else None
    return Finding(
        Code.SHOE_SEQUENCE_GAP,
        f"{event.TOPIC} as version {event.originator_version} came after the shoe was closed",
        round_id,
        event.originator_id.removeprefix("shoe:"),
    )


def _gap(shoe: ShoeRecord, detail: str, round_id: str | None = None) -> Finding:
    whose = f"shoe {shoe.shoe_id}" if round_id is None else f"shoe {shoe.shoe_id}, round {round_id}"
    return Finding(Code.SHOE_SEQUENCE_GAP, f"{whose}: {detail}", round_id, shoe.shoe_id)


def _listed(names: tuple[str, ...] | None) -> str:
    return ", ".join(names or ()) or "no account"


def _named(cards: list[Card] | tuple[Card, ...]) -> str:
    return " ".join(map(str, cards)) or "no cards"
