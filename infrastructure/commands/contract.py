"""The command contract: one JSON object a command, read strictly.

Every command names a `command` and a `key`; `at` and `actor` may be left out.
Unknown fields, doubled JSON keys and numbers that are not integers are refused.
"""

import hashlib
import json
import re
from collections import Counter
from datetime import UTC, date, datetime
from functools import cache
from typing import Annotated, Any, Literal, Self, get_args
from zoneinfo import available_timezones

import msgspec
from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from domain.bets import BetKind
from domain.cards import BurnedCardField, CardField
from domain.errors import Refused
from domain.event import MAXIMUM_MINOR
from domain.money import CurrencyCode
from domain.rules import STANDARD_RULES, Rules
from domain.shoe import Source
from domain.tableau import Outcome

LINE_BYTES_MAX = 1 << 20

ID_PATTERN = r"^[A-Za-z0-9._:-]{1,64}$"
"""Ids are chosen by the client."""

TEXT_PATTERN = r"^[^\x00-\x1f\x7f-\x9f\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]{1,500}$"
"""Reasons are written for people; nothing in them moves a cursor or turns the text around."""

Id = Annotated[str, StringConstraints(pattern=ID_PATTERN)]
Text = Annotated[str, StringConstraints(pattern=TEXT_PATTERN)]

Money = Annotated[int, Field(gt=0, le=MAXIMUM_MINOR)]
_SEED_PATTERN = r"^[0-9a-fA-F]{64}$"
_TIME_PATTERN = r"^([01][0-9]|2[0-3]):[0-5][0-9]$"
Seed = Annotated[str, StringConstraints(pattern=_SEED_PATTERN)]
TimeOfDay = Annotated[str, StringConstraints(pattern=_TIME_PATTERN)]

_SHAPES = {
    ID_PATTERN: "must be 1 to 64 of the characters A-Z a-z 0-9 . _ : -",
    TEXT_PATTERN: "must be 1 to 500 characters, none of them a control character",
    _SEED_PATTERN: "must be 64 hexadecimal digits",
    _TIME_PATTERN: "must be a time of day as in 06:00",
}


def _known_zone(name: str) -> str:
    if name not in _zones():
        raise ValueError("not a time zone: write one as in Europe/London")
    return name


@cache
def _zones() -> set[str]:
    # These two name no place, and one of them another time on every machine.
    return available_timezones() - {"localtime", "Factory"}


Zone = Annotated[str, AfterValidator(_known_zone)]


def _date(day: object) -> object:
    # The library reads a string of digits as seconds since 1970, and takes a time of midnight.
    if isinstance(day, date):
        return day
    if not isinstance(day, str) or not _DATE.match(day):
        raise ValueError("must be a date as in 2026-01-31")
    return day


_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}\Z")
_FIRST_DAY, _LAST_DAY = date(1900, 1, 1), date(9000, 1, 1)
GamingDay = Annotated[
    date, Field(strict=False, ge=_FIRST_DAY, le=_LAST_DAY), BeforeValidator(_date)
]


_GAMING_DAY: TypeAdapter[date] = TypeAdapter(GamingDay)


def read_day(text: str) -> date:
    """Reads the date of a gaming day; raises ValueError, which says how it is written."""
    try:
        return _GAMING_DAY.validate_python(text)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        raise ValueError(fault["msg"].removeprefix("Value error, ")) from None


def _written_out(at: object) -> object:
    # The library reads a string of digits as seconds since 1970.
    if isinstance(at, datetime):
        return at
    if not isinstance(at, str) or not _DATE_AND_TIME.match(at):
        raise ValueError("must be an ISO 8601 time with an offset, as in 2026-01-31T20:15:00+01:00")
    return at


_DATE_AND_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}")


def _in_utc(at: datetime) -> datetime:
    try:
        return at.astimezone(UTC)
    except OverflowError:
        raise ValueError("lies outside the calendar in UTC") from None


GivenTime = Annotated[
    AwareDatetime, Field(strict=False), BeforeValidator(_written_out), AfterValidator(_in_utc)
]


class Command(BaseModel):
    """What every command has. `actor` is the client where it is left out."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    key: Id
    at: GivenTime | None = None
    actor: Id | None = None

    def stream_ids(self) -> set[str]:
        """The streams that the command names itself."""
        names = ((kind, getattr(self, field)) for kind, field in _names_of_streams(type(self)))
        return {f"{kind}:{name}" for kind, name in names if name is not None}

    def new_stream_ids(self) -> set[str]:
        """The streams that the command is to begin."""
        return set()

    def field_hashes(self) -> dict[str, str]:
        """A hash of each field that was given, to tell a repeated command from another one."""
        given = self.model_dump(mode="json", exclude_unset=True, exclude_none=True, exclude={"key"})
        return {
            name: hashlib.blake2b(_SORTED(value), digest_size=12).hexdigest()
            for name, value in given.items()
        }


_SORTED = msgspec.json.Encoder(order="sorted").encode


@cache
def _names_of_streams(command_type: type[Command]) -> tuple[tuple[str, str], ...]:
    """The kinds of streams that a command names, each with its field."""
    kinds = ("table", "shoe", "round", "account", "correction")
    fields = ((kind, f"{kind}_id") for kind in kinds)
    return tuple((kind, field) for kind, field in fields if field in command_type.model_fields)


class SetGamingDay(Command):
    command: Literal["set_gaming_day"]
    zone: Zone
    starts_at: TimeOfDay


class CloseDay(Command):
    command: Literal["close_day"]
    day: GamingDay


class OpenTable(Command):
    command: Literal["open_table"]
    table_id: Id
    currency: CurrencyCode
    rules: Rules = STANDARD_RULES


class ChangeRules(Command):
    command: Literal["change_rules"]
    table_id: Id
    rules: Rules


class OpenAccount(Command):
    command: Literal["open_account"]
    account_id: Id
    currency: CurrencyCode


class Deposit(Command):
    command: Literal["deposit"]
    account_id: Id
    amount_minor: Money


class Withdraw(Command):
    command: Literal["withdraw"]
    account_id: Id
    amount_minor: Money


class FreezeAccount(Command):
    command: Literal["freeze_account"]
    account_id: Id
    reason: Text


class UnfreezeAccount(Command):
    command: Literal["unfreeze_account"]
    account_id: Id
    reason: Text


class CloseAccount(Command):
    command: Literal["close_account"]
    account_id: Id
    reason: Text


class OpenShoe(Command):
    command: Literal["open_shoe"]
    shoe_id: Id
    table_id: Id
    source: Source
    seed: Seed | None = None


class BurnCards(Command):
    command: Literal["burn_cards"]
    shoe_id: Id
    cards: Annotated[tuple[BurnedCardField, ...], Field(min_length=1, max_length=416)]


class CutCard(Command):
    command: Literal["cut_card"]
    shoe_id: Id


class OpenRound(Command):
    command: Literal["open_round"]
    round_id: Id
    shoe_id: Id

    def new_stream_ids(self) -> set[str]:
        return {f"round:{self.round_id}"}


class Bet(BaseModel):
    """A bet inside a command that places several."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    bet_id: Id
    account_id: Id
    bet: BetKind
    stake_minor: Money


class PlaceBet(Command):
    command: Literal["place_bet"]
    bet_id: Id
    round_id: Id
    account_id: Id
    bet: BetKind
    stake_minor: Money


class CancelBet(Command):
    command: Literal["cancel_bet"]
    bet_id: Id
    round_id: Id


class CloseBetting(Command):
    command: Literal["close_betting"]
    round_id: Id


_Cards = Annotated[tuple[CardField, ...], Field(min_length=1, max_length=6)]


class Deal(Command):
    command: Literal["deal"]
    round_id: Id
    cards: _Cards | None = None
    irregular: Text | None = None


class SettleRound(Command):
    command: Literal["settle_round"]
    round_id: Id


class PlayRound(Command):
    command: Literal["play_round"]
    round_id: Id
    shoe_id: Id
    bets: Annotated[tuple[Bet, ...], Field(max_length=1000)]
    cards: _Cards | None = None

    def stream_ids(self) -> set[str]:
        return super().stream_ids() | {f"account:{bet.account_id}" for bet in self.bets}

    def new_stream_ids(self) -> set[str]:
        return {f"round:{self.round_id}"}


class VoidRound(Command):
    command: Literal["void_round"]
    round_id: Id
    reason: Text


class ProposeCorrection(Command):
    """What is to hold: other cards, other bets or both, or that the round is void."""

    command: Literal["propose_correction"]
    actor: Id
    correction_id: Id
    round_id: Id
    reason: Text
    cards: Annotated[tuple[CardField, ...], Field(min_length=4, max_length=6)] | None = None
    bets: Annotated[tuple[Bet, ...], Field(max_length=1000)] | None = None
    void: Literal[True] | None = None

    @model_validator(mode="after")
    def _says_what_is_to_hold(self) -> Self:
        others = (self.cards, self.bets)
        if self.void is None and others == (None, None):
            raise ValueError("say what is to hold: cards, bets, or void")
        if self.void is not None and others != (None, None):
            raise ValueError("a void round holds neither cards nor bets")
        return self

    def stream_ids(self) -> set[str]:
        return super().stream_ids() | {f"account:{bet.account_id}" for bet in self.bets or ()}


class ApproveCorrection(Command):
    command: Literal["approve_correction"]
    actor: Id
    correction_id: Id


class RejectCorrection(Command):
    command: Literal["reject_correction"]
    actor: Id
    correction_id: Id


class CollectDue(Command):
    command: Literal["collect_due"]
    account_id: Id


class CloseShoe(Command):
    command: Literal["close_shoe"]
    shoe_id: Id


class RecordRound(Command):
    """A round of another system, as it was recorded there; only an import gives it."""

    command: Literal["record_round"] = "record_round"
    round_id: Id
    shoe_id: Id
    number: int
    player: tuple[CardField, ...]
    banker: tuple[CardField, ...]
    player_total: int
    banker_total: int
    outcome: Outcome
    recorded_from: str


_AnyCommand = (
    SetGamingDay
    | CloseDay
    | OpenTable
    | ChangeRules
    | OpenAccount
    | Deposit
    | Withdraw
    | FreezeAccount
    | UnfreezeAccount
    | CloseAccount
    | OpenShoe
    | BurnCards
    | CutCard
    | OpenRound
    | PlaceBet
    | CancelBet
    | CloseBetting
    | Deal
    | SettleRound
    | PlayRound
    | VoidRound
    | ProposeCorrection
    | ApproveCorrection
    | RejectCorrection
    | CollectDue
    | CloseShoe
)
_COMMAND: TypeAdapter[Command] = TypeAdapter(Annotated[_AnyCommand, Field(discriminator="command")])


COMMANDS: tuple[str, ...] = tuple(
    get_args(each.model_fields["command"].annotation)[0] for each in get_args(_AnyCommand)
)
"""The names of the commands."""


class NotACommand(Refused):
    """A line that could not be read. `key` is that of the command where it could be told."""

    def __init__(self, message: str, *, key: str | None = None, field: str | None = None) -> None:
        super().__init__("invalid_command", message, field=field)
        self.key = key


def read_command(line: bytes) -> Command:
    """Reads one command; raises NotACommand, which names the field that is to blame."""
    return _command(line, read_fields(line))


def command_of(fields: dict[str, Any]) -> Command:
    """The command of fields that were read before; raises NotACommand as well."""
    return _command(json.dumps(fields).encode(), fields)


def read_fields(line: bytes, *, what: str = "line") -> dict[str, Any]:
    """Reads a JSON object as strictly as a command is read; raises NotACommand."""
    if len(line) > LINE_BYTES_MAX:
        raise NotACommand(f"the {what} is longer than {LINE_BYTES_MAX} bytes")
    try:
        given = json.loads(
            line.decode(), object_pairs_hook=_without_doubled_keys, parse_constant=_not_json
        )
    except UnicodeDecodeError:
        raise NotACommand(f"the {what} is not UTF-8") from None
    except RecursionError:
        raise NotACommand(f"the {what} is nested too deeply") from None
    except json.JSONDecodeError as error:
        raise NotACommand(f"the {what} is not JSON: {error.msg} at {error.colno}") from None
    except ValueError as error:
        raise NotACommand(f"the {what} is not a command: {error}") from None
    if not isinstance(given, dict):
        raise NotACommand(f"the {what} is not a JSON object")
    return given


def _command(line: bytes, given: dict[str, Any]) -> Command:
    key = given.get("key")
    try:
        return _COMMAND.validate_json(line)
    except ValidationError as error:
        field, why = _first_fault(error)
        raise NotACommand(
            f"{field}: {why}" if field else why,
            key=key if isinstance(key, str) and _is_key(key) else None,
            field=field or None,
        ) from None


def _without_doubled_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        doubled = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"{doubled[:64]!r} is there twice")
    return fields


def _not_json(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


_KEY: TypeAdapter[str] = TypeAdapter(Id)


def _is_key(key: str) -> bool:
    try:
        _KEY.validate_python(key)
    except ValidationError:
        return False
    return True


def _first_fault(error: ValidationError) -> tuple[str, str]:
    fault = error.errors(include_url=False, include_input=False)[0]
    place = [str(part)[:64] for part in fault["loc"][1:] if "[" not in str(part)]
    if fault["type"] in ("union_tag_invalid", "union_tag_not_found"):
        return "command", f"must be one of {', '.join(COMMANDS)}"
    if fault["type"] == "extra_forbidden":
        return ".".join(place), "is not a field of this command"
    if fault["type"] == "missing":
        return ".".join(place), "is missing"
    if fault["type"] == "string_pattern_mismatch":
        return ".".join(place), _SHAPES[fault["ctx"]["pattern"]]
    return ".".join(place), fault["msg"].removeprefix("Value error, ")


def read_rules(text: str) -> Rules:
    """Reads a table's rules from JSON; raises NotACommand, which names the part to blame."""
    try:
        return Rules.model_validate_json(text)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(["rules", *(str(part) for part in fault["loc"] if "[" not in str(part))])
        raise NotACommand(f"{place}: {fault['msg']}", field=place) from None
