"""A table: its currency, the rules in force, and the one shoe that is on it."""

from datetime import datetime
from typing import ClassVar, Self, assert_never

from msgspec import Struct
from msgspec.structs import replace

from domain.errors import Refused
from domain.event import NEVER, DomainEvent, Stamp
from domain.rules import STANDARD_RULES, Rules


class TableOpened(DomainEvent):
    """A table opened in one currency, with the first version of its rules."""

    TOPIC: ClassVar[str] = "table.opened"
    currency: str
    rules: Rules


class RulesChanged(DomainEvent):
    """New rules hold from the next round on."""

    TOPIC: ClassVar[str] = "table.rules_changed"
    rules_version: int
    rules: Rules


class ShoePlaced(DomainEvent):
    """A shoe was put on the table."""

    TOPIC: ClassVar[str] = "table.shoe_placed"
    shoe_id: str


class ShoeRemoved(DomainEvent):
    """The shoe left the table."""

    TOPIC: ClassVar[str] = "table.shoe_removed"
    shoe_id: str


TableEvent = TableOpened | RulesChanged | ShoePlaced | ShoeRemoved


class Table(Struct, frozen=True, gc=False):
    """A baccarat table. It holds one shoe at a time."""

    id: str
    version: int = 0
    at: datetime = NEVER
    currency: str = ""
    rules: Rules = STANDARD_RULES
    rules_version: int = 0
    shoe_id: str | None = None

    @property
    def name(self) -> str:
        """The id that the client chose."""
        return self.id.removeprefix("table:")

    def open(self, currency: str, *, rules: Rules, stamp: Stamp) -> TableOpened:
        """Opens the table; refuses one that is there."""
        if self.version:
            raise Refused("already_exists", f"table {self.name} is open", field="table_id")
        return TableOpened(*stamp.on(self.id, 1), currency=currency, rules=rules)

    def must_be_known(self) -> None:
        """Refuses a table that was never opened."""
        if not self.version:
            raise Refused("unknown_table", f"there is no table {self.name}", field="table_id")

    def change_rules(self, rules: Rules, *, stamp: Stamp) -> RulesChanged:
        """Replaces the rules, from the next round on."""
        self.must_be_known()
        return RulesChanged(
            *stamp.on(self.id, self.version + 1),
            rules_version=self.rules_version + 1,
            rules=rules,
        )

    def place_shoe(self, shoe_id: str, *, stamp: Stamp) -> ShoePlaced:
        """Puts a shoe on the table; refuses a second one."""
        self.must_be_known()
        if self.shoe_id is not None:
            raise Refused("shoe_open", f"shoe {self.shoe_id} is on table {self.name}")
        return ShoePlaced(*stamp.on(self.id, self.version + 1), shoe_id=shoe_id)

    def remove_shoe(self, shoe_id: str, *, stamp: Stamp) -> ShoeRemoved:
        """Takes the shoe off the table."""
        assert self.shoe_id == shoe_id
        return ShoeRemoved(*stamp.on(self.id, self.version + 1), shoe_id=shoe_id)

    def apply(self, event: TableEvent) -> Self:
        table = replace(self, version=event.originator_version, at=event.at)
        match event:
            case TableOpened():
                return replace(table, currency=event.currency, rules=event.rules, rules_version=1)
            case RulesChanged():
                return replace(table, rules=event.rules, rules_version=event.rules_version)
            case ShoePlaced():
                return replace(table, shoe_id=event.shoe_id)
            case ShoeRemoved():
                return replace(table, shoe_id=None)
            case _:
                assert_never(event)
