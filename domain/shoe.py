"""A shoe: its cards, physical or shuffled by a seed, and the rounds dealt from it."""

from collections.abc import Iterable
from datetime import datetime
from typing import ClassVar, Literal, Self, assert_never

from msgspec import Struct
from msgspec.structs import replace

from domain.cards import FACE_DOWN, Card, burn_count, excess_cards, must_show_face
from domain.errors import Refused
from domain.event import NEVER, DomainEvent, Stamp
from domain.shuffle import SCHEME, commitment, shuffled

Source = Literal["physical", "shuffled"]

CARDS_BEHIND_CUT_CARD = 16
"""Where the cut card lies in a shuffled shoe: this many cards are behind it."""

MOST_CARDS_A_ROUND = 6


class ShoeOpened(DomainEvent):
    """A full shoe stands at a table.

    A shuffled one names its scheme and publishes the commitment to its seed,
    and says whether the seed was given rather than drawn.
    """

    TOPIC: ClassVar[str] = "shoe.opened"
    table_id: str
    decks: int
    source: Source
    scheme: str | None = None
    commitment: str | None = None
    seed_given: bool | None = None


class CardsBurned(DomainEvent):
    """Cards were burned before the first round; the first one was turned up."""

    TOPIC: ClassVar[str] = "shoe.cards_burned"
    cards: tuple[Card, ...]


class RoundStarted(DomainEvent):
    """The shoe's next round began; rounds are numbered from 1."""

    TOPIC: ClassVar[str] = "shoe.round_started"
    round_id: str
    number: int


class CardsDrawn(DomainEvent):
    """A round ended, having drawn these cards in dealing order.

    `marked` are the accounts for which it marked commission as due, if any: it
    is collected when the shoe closes.
    """

    TOPIC: ClassVar[str] = "shoe.cards_drawn"
    round_id: str
    cards: tuple[Card, ...]
    marked: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        must_show_face(*self.cards)


class DrawCorrected(DomainEvent):
    """A correction of a round changed what the round drew, or what it marked as due.

    `cards` were drawn and not `instead_of`; both are empty where the cards stand.
    """

    TOPIC: ClassVar[str] = "shoe.draw_corrected"
    round_id: str
    correction_id: str
    instead_of: tuple[Card, ...]
    cards: tuple[Card, ...]
    marked: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        must_show_face(*self.instead_of, *self.cards)


class CutCardReached(DomainEvent):
    """The cut card came out."""

    TOPIC: ClassVar[str] = "shoe.cut_card_reached"


class ShoeClosed(DomainEvent):
    """The shoe is done. A shuffled one shows its seed."""

    TOPIC: ClassVar[str] = "shoe.closed"
    seed: str | None = None


ShoeEvent = (
    ShoeOpened
    | CardsBurned
    | RoundStarted
    | CardsDrawn
    | DrawCorrected
    | CutCardReached
    | ShoeClosed
)


class Shoe(Struct, frozen=True, gc=False):
    """Decks of cards in one order. It deals one round at a time.

    `marked` are the accounts that commission was marked for in its rounds.
    """

    id: str
    version: int = 0
    at: datetime = NEVER
    table_id: str = ""
    decks: int = 0
    source: Source = "physical"
    burned: tuple[Card, ...] = ()
    drawn: tuple[Card, ...] = ()
    rounds: int = 0
    round_id: str | None = None
    cut_card_is_out: bool = False
    rounds_after_cut_card: int = 0
    marked: frozenset[str] = frozenset()
    is_closed: bool = False

    @property
    def name(self) -> str:
        """The id that the client chose."""
        return self.id.removeprefix("shoe:")

    @property
    def cards_left(self) -> int:
        """Cards that no ended round has drawn and that were not burned."""
        return 52 * self.decks - len(self.burned) - len(self.drawn)

    def open_physical(self, table_id: str, *, decks: int, stamp: Stamp) -> ShoeOpened:
        """Opens a shoe whose cards are recorded as they are seen."""
        self._must_be_new()
        return ShoeOpened(*stamp.on(self.id, 1), table_id=table_id, decks=decks, source="physical")

    def open_shuffled(
        self, table_id: str, *, decks: int, seed: bytes, seed_given: bool, stamp: Stamp
    ) -> tuple[ShoeOpened, CardsBurned]:
        """Opens a shoe whose order the seed decides; it burns by itself."""
        self._must_be_new()
        opened = ShoeOpened(
            *stamp.on(self.id, 1),
            table_id=table_id,
            decks=decks,
            source="shuffled",
            scheme=SCHEME,
            commitment=commitment(seed),
            seed_given=seed_given,
        )
        turned_up = shuffled(seed, decks)[0]
        burned = CardsBurned(
            *stamp.on(self.id, 2), cards=(turned_up, *(FACE_DOWN,) * burn_count(turned_up))
        )
        return opened, burned

    def burn(self, cards: tuple[Card, ...], *, stamp: Stamp) -> CardsBurned:
        """Records the cards burned from a physical shoe, once and before its first round."""
        self.must_be_open()
        if self.rounds or self.source == "shuffled":
            reason = "has dealt a round" if self.rounds else "was shuffled and burned by itself"
            raise Refused("burn_too_late", f"shoe {self.name} {reason}")
        if self.burned:
            raise Refused("already_exists", f"shoe {self.name} has burned its cards")
        self.check_cards(cards)
        return CardsBurned(*stamp.on(self.id, self.version + 1), cards=cards)

    def start_round(self, round_id: str, *, after_cut_card: int, stamp: Stamp) -> RoundStarted:
        """Starts the next round; after the cut card only as many as the table's rules allow."""
        self.must_be_open()
        self._must_not_be_in_a_round()
        if self.cut_card_is_out and self.rounds_after_cut_card >= after_cut_card:
            raise Refused("shoe_exhausted", f"the cut card of shoe {self.name} is out")
        if self.cards_left < MOST_CARDS_A_ROUND:
            raise Refused("shoe_exhausted", f"shoe {self.name} has {self.cards_left} cards left")
        return RoundStarted(
            *stamp.on(self.id, self.version + 1), round_id=round_id, number=self.rounds + 1
        )

    def start_recorded_round(self, round_id: str, *, number: int, stamp: Stamp) -> RoundStarted:
        """Starts a round as another system numbered it."""
        self.must_be_open()
        self._must_not_be_in_a_round()
        return RoundStarted(*stamp.on(self.id, self.version + 1), round_id=round_id, number=number)

    def end_round(
        self, cards: tuple[Card, ...], *, marked: Iterable[str] = (), stamp: Stamp
    ) -> CardsDrawn:
        """Ends the round that is open, with all the cards it drew.

        `marked` are the accounts for which it marked commission as due.
        """
        assert self.round_id is not None
        return CardsDrawn(
            *stamp.on(self.id, self.version + 1),
            round_id=self.round_id,
            cards=cards,
            marked=_sorted(marked),
        )

    def correct_draw(
        self,
        round_id: str,
        *,
        correction_id: str,
        instead_of: tuple[Card, ...],
        cards: tuple[Card, ...],
        marked: Iterable[str] = (),
        on_table: tuple[Card, ...] = (),
        stamp: Stamp,
    ) -> tuple[DrawCorrected, ...]:
        """Records, closed or not, what a corrected round drew and marked; nothing if that stands.

        Refused as in `check_corrected`.
        """
        changed = instead_of != cards
        names = _sorted(marked)
        if not changed and not names:
            return ()
        self.check_corrected(instead_of=instead_of, cards=cards, on_table=on_table)
        return (
            DrawCorrected(
                *stamp.on(self.id, self.version + 1),
                round_id=round_id,
                correction_id=correction_id,
                instead_of=instead_of if changed else (),
                cards=cards if changed else (),
                marked=names,
            ),
        )

    def next_cards(self, count: int, *, in_round: int, seed: bytes) -> tuple[Card, ...]:
        """The next cards of a shuffled shoe, of which the open round has drawn `in_round`."""
        first = len(self.burned) + len(self.drawn) + in_round
        return shuffled(seed, self.decks)[first : first + count]

    def meets_cut_card(self, in_round: int) -> bool:
        """Whether a shuffled shoe's cut card comes out with the open round's `in_round` cards."""
        behind = self.cards_left - in_round
        return (
            self.source == "shuffled"
            and not self.cut_card_is_out
            and behind <= CARDS_BEHIND_CUT_CARD
        )

    def reach_cut_card(self, *, stamp: Stamp) -> CutCardReached:
        """Records that the cut card came out, once."""
        self.must_be_open()
        if self.cut_card_is_out:
            raise Refused("already_exists", f"the cut card of shoe {self.name} is out already")
        return CutCardReached(*stamp.on(self.id, self.version + 1))

    def close(self, *, seed: bytes | None, stamp: Stamp) -> ShoeClosed:
        """Closes the shoe between two rounds and shows the seed of a shuffled one."""
        self.must_be_open()
        self._must_not_be_in_a_round()
        return ShoeClosed(
            *stamp.on(self.id, self.version + 1), seed=None if seed is None else seed.hex()
        )

    def check_cards(self, cards: tuple[Card, ...]) -> None:
        """Refuses cards, drawn since the last ended round, that the decks do not have left."""
        excess = excess_cards((*self.burned, *self.drawn, *cards), decks=self.decks)
        if excess:
            card = next(iter(excess))
            raise Refused(
                "card_not_in_shoe",
                f"{card} would be there {excess[card]} times in a shoe of {self.decks} decks",
                field="cards",
            )
        if len(cards) > self.cards_left:
            raise Refused(
                "card_not_in_shoe",
                f"shoe {self.name} has {self.cards_left} cards left",
                field="cards",
            )

    def check_corrected(
        self,
        *,
        instead_of: tuple[Card, ...],
        cards: tuple[Card, ...],
        on_table: tuple[Card, ...] = (),
    ) -> None:
        """Refuses cards that an ended round cannot have drawn in the place of others.

        A shuffled shoe's cards are its seed's. From a physical one, no more of
        a card may come out than the decks hold, unless that was so before. What
        lies `on_table` in the round that is open counts too.
        """
        if instead_of == cards:
            return
        if self.source == "shuffled":
            raise Refused(
                "invalid_command", "cards: a shuffled shoe deals by itself", field="cards"
            )
        others = (*self.burned, *_without(self.drawn, instead_of), *on_table)
        before = excess_cards((*others, *instead_of), decks=self.decks)
        after = excess_cards((*others, *cards), decks=self.decks)
        for card, count in after.items():
            if count > before.get(card, 0):
                raise Refused(
                    "card_not_in_shoe",
                    f"{card} would be there {count} times in a shoe of {self.decks} decks",
                    field="cards",
                )
        if len(cards) > len(instead_of) and len(others) + len(cards) > 52 * self.decks:
            raise Refused(
                "card_not_in_shoe", f"shoe {self.name} did not hold so many cards", field="cards"
            )

    def must_be_known(self) -> None:
        """Refuses a shoe that was never opened."""
        if not self.version:
            raise Refused("unknown_shoe", f"there is no shoe {self.name}", field="shoe_id")

    def must_be_open(self) -> None:
        """Refuses a shoe that was never opened, or is closed."""
        self.must_be_known()
        if self.is_closed:
            raise Refused("shoe_closed", f"shoe {self.name} is closed", field="shoe_id")

    def _must_not_be_in_a_round(self) -> None:
        if self.round_id is not None:
            raise Refused("round_open", f"round {self.round_id} is open on shoe {self.name}")

    def _must_be_new(self) -> None:
        if self.version:
            raise Refused("already_exists", f"shoe {self.name} is there", field="shoe_id")

    def apply(self, event: ShoeEvent) -> Self:
        shoe = replace(self, version=event.originator_version, at=event.at)
        match event:
            case ShoeOpened():
                return replace(
                    shoe, table_id=event.table_id, decks=event.decks, source=event.source
                )
            case CardsBurned():
                return replace(shoe, burned=event.cards)
            case RoundStarted():
                after = shoe.rounds_after_cut_card + shoe.cut_card_is_out
                return replace(
                    shoe,
                    round_id=event.round_id,
                    rounds=event.number,
                    rounds_after_cut_card=after,
                )
            case CardsDrawn():
                drawn = shoe.drawn + event.cards
                marked = shoe.marked.union(event.marked or ())
                return replace(shoe, round_id=None, drawn=drawn, marked=marked)
            case DrawCorrected():
                drawn = (*_without(shoe.drawn, event.instead_of), *event.cards)
                return replace(shoe, drawn=drawn, marked=shoe.marked.union(event.marked or ()))
            case CutCardReached():
                return replace(shoe, cut_card_is_out=True)
            case ShoeClosed():
                return replace(shoe, is_closed=True)
            case _:
                assert_never(event)


def _without(cards: tuple[Card, ...], some: tuple[Card, ...]) -> tuple[Card, ...]:
    """The cards that are left where some of them are taken away, each once."""
    left = list(cards)
    for card in some:
        left.remove(card)
    return tuple(left)


def _sorted(names: Iterable[str]) -> tuple[str, ...] | None:
    return tuple(sorted(set(names))) or None
