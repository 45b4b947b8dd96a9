"""Brings recorded rounds into the ledger, once however often the same file comes.

All keys and ids follow from the table's id and the numbers in the file, so the
answers that the ledger remembers tell which rounds are there and whether they
are the same. That is looked up for the whole file before anything is stored.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import groupby
from typing import Any

from domain.errors import Refused
from domain.money import DECIMALS
from domain.round import RoundState
from infrastructure.casino import Book, Casino
from infrastructure.commands.contract import (
    ID_PATTERN,
    CloseShoe,
    Command,
    OpenShoe,
    OpenTable,
    RecordRound,
)
from infrastructure.commands.execution import Answer, Client, execute_in_batches
from infrastructure.importers.reading import ImportRefused as ImportRefused
from infrastructure.importers.reading import RecordedRound, refuse
from infrastructure.store.session import Remembered

CLIENT = Client("import", is_bound_to_clock=False)
DEFAULT_CURRENCY = "USD"
_ID_CHARACTERS_MAX = 64
_CHECKED_AT_ONCE = 2_000
"""How many rounds are looked up in one turn, during which others wait."""

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class ImportReport:
    """What a file held and what of it was new; `last_position` is that of the last new event."""

    table_id: str
    currency: str
    rounds: int
    new_rounds: int
    shoes: int
    new_shoes: int
    last_position: int | None = None

    def to_json(self) -> dict[str, Any]:
        """The report for programs."""
        return asdict(self)

    def __str__(self) -> str:
        text = f"Rounds: {self.rounds:,}, shoes: {self.shoes:,}, at table {self.table_id}"
        if not self.rounds:
            return text
        if not self.new_rounds:
            return f"{text}, all of them there already"
        return f"{text}, {self.new_rounds:,} of them new"


@dataclass(slots=True)
class _Plan:
    """What is to be stored: the new rounds, and what has to be opened and closed around them.

    `shoe_on_table` is the shoe that the first new round finds there.
    """

    currency: str
    table_is_new: bool
    shoe_on_table: str | None
    new_rounds: list[RecordedRound] = field(default_factory=list)
    new_shoes: set[int] = field(default_factory=set)


def import_rounds(
    casino: Casino,
    rounds: Sequence[RecordedRound],
    *,
    table_id: str,
    currency: str | None = None,
    progress: Progress | None = None,
    batch: int = 250,
) -> ImportReport:
    """Records the rounds that are not there yet, `batch` of them in a transaction.

    The table is opened with the standard rules, in USD or the currency that is
    given, where it is not there. A shoe is closed when the next one begins; the
    last one stays open, so that a file that has grown can add to it. Raises
    ImportRefused, with nothing stored, where the table or a shoe of the file
    is there with other content. `progress` is told how many of all the rounds
    are there, at the start and after each transaction.
    """
    _check_ids(table_id, rounds)
    if currency is not None and currency not in DECIMALS:
        raise ImportRefused(f"{currency[:20]!r} is not an ISO 4217 currency")
    plan = _plan(casino, table_id, currency, rounds)
    report = ImportReport(
        table_id=table_id,
        currency=plan.currency,
        rounds=len(rounds),
        new_rounds=len(plan.new_rounds),
        shoes=len({each.shoe for each in rounds}),
        new_shoes=len(plan.new_shoes),
    )
    there = report.rounds - report.new_rounds
    if progress is not None:
        progress(there, report.rounds)
    for commands, answers in _execute(casino, _batches(table_id, plan, batch)):
        # Another import of the same file may have been faster.
        are_replayed = [
            answer["replayed"]
            for command, answer in zip(commands, answers, strict=True)
            if isinstance(command, RecordRound)
        ]
        report = replace(
            report,
            new_rounds=report.new_rounds - sum(are_replayed),
            last_position=answers[-1]["position"],
        )
        there += len(are_replayed)
        if progress is not None:
            progress(there, report.rounds)
    return report


def _execute(
    casino: Casino, batches: Iterable[list[Command]]
) -> Iterator[tuple[list[Command], list[Answer]]]:
    try:
        yield from execute_in_batches(casino, batches, client=CLIENT, is_whole=True)
    except Refused as refusal:
        if refusal.code == "store_unavailable":
            raise
        # The table was as it should be a moment ago, so somebody else is at it.
        raise ImportRefused(f"stopped, import the file again: {refusal.message}") from refusal


def shoe_id_of(table_id: str, shoe: int) -> str:
    """The id of a recorded shoe."""
    return f"{table_id}.{shoe}"


def round_id_of(table_id: str, each: RecordedRound) -> str:
    """The id of a recorded round."""
    return f"{table_id}.{each.shoe}.{each.number}"


def _check_ids(table_id: str, rounds: Sequence[RecordedRound]) -> None:
    if re.fullmatch(ID_PATTERN, table_id) is None:
        raise ImportRefused(
            f"table id {table_id[:80]!r} must be 1 to 64 of the characters A-Z a-z 0-9 . _ : -"
        )
    for each in rounds:
        excess = len(_round_key(table_id, each)) - _ID_CHARACTERS_MAX
        if excess > 0:
            refuse(
                each.line,
                f"table id {table_id!r} is {excess} characters too long to name round "
                f"{each.number} of shoe {each.shoe} by",
            )


# Keys say what they are for, or those of a table T.1 and of shoe 1 of a table T would meet.
def _shoe_key(table_id: str, shoe: int) -> str:
    return f"shoe:{shoe_id_of(table_id, shoe)}"


def _round_key(table_id: str, each: RecordedRound) -> str:
    return f"round:{round_id_of(table_id, each)}"


def _open_table(table_id: str, currency: str) -> OpenTable:
    return OpenTable(
        command="open_table", key=f"table:{table_id}", table_id=table_id, currency=currency
    )


def _open_shoe(table_id: str, shoe: int) -> OpenShoe:
    return OpenShoe(
        command="open_shoe",
        key=_shoe_key(table_id, shoe),
        shoe_id=shoe_id_of(table_id, shoe),
        table_id=table_id,
        source="physical",
    )


def _close_shoe(shoe_id: str) -> CloseShoe:
    return CloseShoe(command="close_shoe", key=f"close:{shoe_id}", shoe_id=shoe_id)


def _record_round(table_id: str, each: RecordedRound) -> RecordRound:
    return RecordRound(
        key=_round_key(table_id, each),
        round_id=round_id_of(table_id, each),
        shoe_id=shoe_id_of(table_id, each.shoe),
        number=each.number,
        player=each.player,
        banker=each.banker,
        player_total=each.player_total,
        banker_total=each.banker_total,
        outcome=each.outcome,
        recorded_from=each.recorded_from,
    )


def _plan(
    casino: Casino, table_id: str, currency: str | None, rounds: Sequence[RecordedRound]
) -> _Plan:
    with casino.turn() as book:
        table = book.table(table_id)
        table_is_new = not table.version
        if not table_is_new and currency not in (None, table.currency):
            raise ImportRefused(f"table {table_id} plays {table.currency}, not {currency}")
        plan = _Plan(
            currency=currency or table.currency or DEFAULT_CURRENCY,
            table_is_new=table_is_new,
            shoe_on_table=table.shoe_id,
        )
    known_shoes = _find_new_rounds(casino, table_id, rounds, plan)
    with casino.turn() as book:
        _check_known_shoes(book, table_id, rounds, plan, known_shoes)
        _check_shoe_on_table(book, plan)
    return plan


def _find_new_rounds(
    casino: Casino, table_id: str, rounds: Sequence[RecordedRound], plan: _Plan
) -> set[int]:
    """Tells the rounds that are new from those that are there, and gives the shoes that are."""
    known_shoes: set[int] = set()
    for start in range(0, len(rounds), _CHECKED_AT_ONCE):
        chunk = rounds[start : start + _CHECKED_AT_ONCE]
        with casino.turn() as book:
            keys = {_shoe_key(table_id, each.shoe) for each in chunk}
            keys.update(_round_key(table_id, each) for each in chunk)
            answers = _recall(book, keys)
            new = [each for each in chunk if not _is_there(answers, table_id, each)]
            known_shoes |= {
                each.shoe for each in chunk if _accepted(answers, _shoe_key(table_id, each.shoe))
            }
            _check_unrecorded(book, table_id, new, known_shoes)
        plan.new_rounds += new
    plan.new_shoes = {each.shoe for each in plan.new_rounds} - known_shoes
    return known_shoes


def _recall(book: Book, keys: Iterable[str]) -> dict[str, Remembered]:
    """The answers that keys of earlier imports were given."""
    found = book.recall([(CLIENT.name, key) for key in keys], ())
    return {key: answer for (_, key), answer in found.items()}


def _is_there(answers: dict[str, Remembered], table_id: str, each: RecordedRound) -> bool:
    answer = _accepted(answers, _round_key(table_id, each))
    if answer is None:
        return False
    if answer.fields != _record_round(table_id, each).field_hashes():
        refuse(each.line, f"shoe {each.shoe} is there with another round {each.number}")
    return True


def _accepted(answers: dict[str, Remembered], key: str) -> Remembered | None:
    answer = answers.get(key)
    return None if answer is None or answer.position is None else answer


def _check_unrecorded(
    book: Book, table_id: str, new: Sequence[RecordedRound], known_shoes: set[int]
) -> None:
    """Refuses shoes and rounds whose ids somebody else has taken."""
    shoes = {f"shoe:{shoe_id_of(table_id, each.shoe)}" for each in new}
    book.fetch(shoes | {f"round:{round_id_of(table_id, each)}" for each in new})
    for each in new:
        shoe_id = shoe_id_of(table_id, each.shoe)
        if each.shoe not in known_shoes and book.shoe(shoe_id).version:
            refuse(each.line, f"shoe {shoe_id} is there and was not imported")
        round_id = round_id_of(table_id, each)
        if book.round(round_id).state is not RoundState.UNOPENED:
            refuse(each.line, f"round {round_id} is there and was not imported")


def _check_known_shoes(
    book: Book,
    table_id: str,
    rounds: Sequence[RecordedRound],
    plan: _Plan,
    known_shoes: set[int],
) -> None:
    """Refuses a shoe that is there with other rounds, or closed where rounds would be added."""
    closing_keys = [f"close:{shoe_id_of(table_id, shoe)}" for shoe in known_shoes]
    closed = _recall(book, closing_keys)
    new_lines = {each.line for each in plan.new_rounds}
    on_table = plan.shoe_on_table
    for shoe, rows in groupby(rounds, key=lambda each: each.shoe):
        shoe_id = shoe_id_of(table_id, shoe)
        known: list[RecordedRound] = []
        new: list[RecordedRound] = []
        for each in rows:
            (new if each.line in new_lines else known).append(each)
        if shoe in known_shoes:
            if new and known and new[0].line < known[-1].line:
                refuse(new[0].line, f"shoe {shoe} is there without a round {new[0].number}")
            if new and shoe_id != on_table:
                refuse(new[0].line, f"shoe {shoe} is closed, nothing can be added to it")
            answer = _accepted(closed, f"close:{shoe_id}")
            latest = book.shoe(shoe_id).rounds if answer is None else answer.answer["rounds"]
            # The last shoe of an older file may lack what the ledger has.
            expected = known[-1].number if known else 0
            if (new or shoe != rounds[-1].shoe) and latest != expected:
                line = new[0].line if new else known[-1].line
                refuse(line, f"shoe {shoe} is there with other rounds, up to {latest}")
        if new:
            on_table = shoe_id


def _check_shoe_on_table(book: Book, plan: _Plan) -> None:
    """Refuses to close, or to add to, a shoe that is not ours or in the middle of a round."""
    if plan.shoe_on_table is None or not plan.new_rounds:
        return
    shoe = book.shoe(plan.shoe_on_table)
    if _accepted(_recall(book, [f"shoe:{shoe.name}"]), f"shoe:{shoe.name}") is None:
        raise ImportRefused(
            f"shoe {shoe.name} is on the table and was not imported: close it first"
        )
    if shoe.round_id is not None:
        raise ImportRefused(f"round {shoe.round_id} is open on shoe {shoe.name}: settle it first")


def _batches(table_id: str, plan: _Plan, batch: int) -> Iterator[list[Command]]:
    """The commands of each transaction, which records at most `batch` rounds."""
    commands: list[Command] = []
    if plan.table_is_new:
        commands.append(_open_table(table_id, plan.currency))
    on_table = plan.shoe_on_table
    count = 0
    for each in plan.new_rounds:
        shoe_id = shoe_id_of(table_id, each.shoe)
        if shoe_id != on_table:
            if on_table is not None:
                commands.append(_close_shoe(on_table))
            commands.append(_open_shoe(table_id, each.shoe))
            on_table = shoe_id
        commands.append(_record_round(table_id, each))
        count += 1
        if count == batch:
            yield commands
            commands, count = [], 0
    if commands:
        yield commands
