"""What a read model is, and how one of a row a key folds a batch with two statements."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, get_args

from msgspec.json import Encoder
from psycopg import Connection, Cursor
from psycopg.abc import Buffer
from psycopg.rows import class_row
from psycopg.types.datetime import TimestamptzBinaryLoader
from psycopg.types.json import Json
from psycopg.types.numeric import NumericBinaryLoader

from domain.event import DomainEvent, Recorded

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_ENCODER = Encoder()

Row = TypeVar("Row", bound="DataclassInstance")
Read = TypeVar("Read")


class ProjectionError(Exception):
    """A read model cannot be used as asked. Each message is one line for the user."""


class ProjectionFailed(ProjectionError):  # noqa: N818 - it says what happened, as Refused does
    """A read model cannot fold an event; it stays as it was before the event's page."""

    def __init__(self, name: str, position: int, reason: str) -> None:
        super().__init__(f"projection {name} cannot fold position {position}: {reason}")
        self.name = name
        self.position = position
        self.reason = reason


class Projection(ABC):
    """A read model: its tables, and the fold that keeps them.

    `version` goes up with every change of the tables or of the fold, and the
    read model is then rebuilt. `ddl`, `indexes` and `fold` name the tables
    without a schema, for a rebuild makes and fills them in another one.
    `indexes` serve questions only: a rebuild makes them when the tables are full.
    """

    name: ClassVar[str]
    version: ClassVar[int]
    tables: ClassVar[tuple[str, ...]]
    ddl: ClassVar[str]
    indexes: ClassVar[str] = ""
    topics: ClassVar[frozenset[str]]

    @abstractmethod
    def fold(self, cursor: Cursor[Any], events: Sequence[Recorded]) -> None:
        """Folds events of the wanted topics into the tables, in the order of their positions.

        Raises ProjectionFailed where an event does not fit what came before it.
        """


class RowProjection(Projection, Generic[Row]):
    """A read model of one row a key.

    `row_type` is a dataclass of the columns, changed in place by `apply`.
    `select` reads the rows of the `keys`; `upsert` takes the `rows` as `document` makes them.
    """

    row_type: type[Row]
    key_column: ClassVar[str]
    select: ClassVar[str]
    upsert: ClassVar[str]

    @abstractmethod
    def key(self, event: DomainEvent) -> str:
        """The key of the row that an event changes."""

    @abstractmethod
    def apply(self, rows: dict[str, Row], recorded: Recorded) -> None:
        """Folds one event into its row; raises LookupError or ValueError where it does not fit."""

    def fold(self, cursor: Cursor[Any], events: Sequence[Recorded]) -> None:
        keys = list({self.key(event) for _, event in events})
        with reading(cursor.connection, self.row_type) as found:
            found.execute(self.select, {"keys": keys})
            rows = {getattr(row, self.key_column): row for row in found}
        for recorded in events:
            try:
                self.apply(rows, recorded)
            except (LookupError, ValueError) as error:
                reason = f"{recorded.event.TOPIC} of {recorded.event.originator_id}: {error}"
                raise ProjectionFailed(self.name, recorded.position, reason) from error
        if rows:
            cursor.execute(self.upsert, {"rows": document(rows.values())})

    def add(self, rows: dict[str, Row], row: Row) -> None:
        """Adds the row of something that opened; it opens once."""
        key = getattr(row, self.key_column)
        if key in rows:
            raise ValueError(f"{key} is there already")
        rows[key] = row

    def known(self, rows: dict[str, Row], key: str) -> Row:
        """The row of something that must have opened before."""
        row = rows.get(key)
        if row is None:
            raise LookupError(f"{key} was never opened")
        return row


class _WholeNumberLoader(NumericBinaryLoader):
    """Money is whole: what is a numeric column there is an int here."""

    def load(self, data: Buffer) -> int:  # type: ignore[override]  # the library's is a Decimal
        return int(super().load(data))


class _UtcLoader(TimestamptzBinaryLoader):
    """Times are UTC, whatever the time zone of the session is."""

    def load(self, data: Buffer) -> datetime:
        return super().load(data).astimezone(UTC)


def reading(connection: Connection[Any], row_type: type[Row]) -> Cursor[Row]:
    """A cursor whose rows are a dataclass, with amounts as int and times in UTC."""
    return exact(connection.cursor(binary=True, row_factory=class_row(row_type)))


def exact(cursor: Cursor[Read]) -> Cursor[Read]:
    """A binary cursor that reads amounts as int and times in UTC."""
    cursor.adapters.register_loader("numeric", _WholeNumberLoader)
    return utc(cursor)


def utc(cursor: Cursor[Read]) -> Cursor[Read]:
    """A binary cursor that reads times in UTC."""
    cursor.adapters.register_loader("timestamptz", _UtcLoader)
    return cursor


def document(rows: Iterable[object]) -> Json:
    """Rows as one value, for `json_populate_recordset` to make rows of a table of.

    An array for each column would be adapted value by value, in Python, and with
    each of them anew for every page.
    """
    return Json(list(rows), _ENCODER.encode)


def topics_of(events: object) -> frozenset[str]:
    """The topics of a union of event types."""
    return frozenset(event.TOPIC for event in get_args(events))
