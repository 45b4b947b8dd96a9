"""Plays generated sequences on a ledger, and looks into what it stored."""

import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from random import Random
from typing import Any

from eventsourcing.persistence import Notification

from domain.event import DomainEvent
from infrastructure.casino import Casino
from infrastructure.commands.contract import NotACommand, read_command
from infrastructure.commands.execution import Batch, Client, Request, execute
from tests.simulation.generator import START, Generator, Step
from tests.simulation.model import Ledger

IN_MEMORY = {"PERSISTENCE_MODULE": "infrastructure.store.memory"}
COMMANDS_A_SEQUENCE = 30
_PAGE = 1000

Answer = dict[str, Any]


@dataclass
class Played:
    """A step, its answer, and the ledger's head before and after it.

    The answer is None where the line could not be read.
    """

    step: Step
    answer: Answer | None
    head_before: int
    head_after: int


def play(casino: Casino, ledger: Ledger, generator: Generator, commands: int) -> list[Played]:
    """Plays a generated sequence one by one, each answer judged by the model."""
    played: list[Played] = []
    for _ in range(commands):
        one = ask(casino, generator.next(ledger))
        played.append(one)
        faults = judge(ledger, one)
        assert not faults, story(played, faults)
    return played


def play_again(casino: Casino, ledger: Ledger, played: list[Played]) -> list[Played]:
    """Sends every line again, later. Nothing may happen a second time."""
    later = played[-1].step.now + timedelta(minutes=10)
    again = []
    for one in played:
        step = Step(one.step.line, one.step.command, one.step.client, later)
        again.append(ask(casino, step))
        faults = judge(ledger, again[-1])
        if again[-1].head_after != again[-1].head_before:
            faults.append("a repeated line stored events")
        if one.answer is not None and _is_remembered(one.answer):
            expected = {**one.answer, "replayed": True}
            faults += [] if again[-1].answer == expected else [f"expected {expected} again"]
        assert not faults, story([*played, again[-1]], faults)
    return again


def play_in_batches(
    casinos: Sequence[Casino], played: list[Played], *, seed: int
) -> list[Answer | None]:
    """Plays a sequence in transactions of random sizes, by applications of one ledger in turn.

    Where the same one has the next turn it decides that before the one is stored.
    """
    random = Random(seed)
    answers: list[Answer | None] = []
    rest = list(played)
    before: _Together | None = None
    while rest:
        _, of_one_client = next(groupby(rest[: random.randint(1, 8)], lambda one: one.step.client))
        together = _Together(random.choice(casinos), list(of_one_client))
        rest = rest[len(together.played) :]
        if before is not None and before.casino is not together.casino:
            answers += before.answers()
            before = None
        together.batch.decide(after=None if before is None else before.batch)
        answers += before.answers() if before is not None else ()
        together.batch.send_off()
        before = together
    return answers + (before.answers() if before is not None else [])


def ask(casino: Casino, step: Step) -> Played:
    """Sends one line as the command line does."""
    before = head(casino)
    try:
        command = read_command(step.line)
    except NotACommand:
        return Played(step, None, before, before)
    [answer] = execute(casino, [command], client=_client(step))
    return Played(step, _as_json(answer), before, head(casino))


class _Together:
    """Lines that share a transaction; those that cannot be read are left out of it."""

    def __init__(self, casino: Casino, played: list[Played]) -> None:
        self.casino = casino
        self.played = played
        read = [one.step for one in played if one.answer is not None]
        requests = [Request(_client(step), read_command(step.line)) for step in read]
        self.batch = Batch(casino, requests)

    def answers(self) -> list[Answer | None]:
        answers = iter(self.batch.answers())
        return [None if one.answer is None else _as_json(next(answers)) for one in self.played]


def _client(step: Step) -> Client:
    return Client(step.client, clock=lambda: step.now)


def judge(ledger: Ledger, one: Played) -> list[str]:
    """Where an answer is not as the model has it, or not as much was stored as it says."""
    step = one.step
    if one.answer is None or step.command is None:
        return [] if one.answer is step.command is None else ["the line was read, or was not"]
    faults = ledger.judge(step.client, step.command, step.now, one.answer)
    is_done = one.answer["ok"] and not one.answer["replayed"]
    if is_done and one.answer["position"] != one.head_after:
        faults.append(f"position is {one.answer['position']}, the head {one.head_after}")
    stores = is_done and not _has_nothing_to_store(step.command, one.answer)
    if stores != (one.head_after > one.head_before):
        faults.append(f"{one.head_after - one.head_before} events were stored")
    return faults


def _has_nothing_to_store(command: dict[str, Any], answer: Answer) -> bool:
    """Where nothing is due, or the balance is empty, collecting does nothing."""
    if command["command"] != "collect_due":
        return False
    result = answer["result"]
    return result["commission_collected_minor"] + result["owed_collected_minor"] == 0


def check_books(casino: Casino, ledger: Ledger) -> None:
    """The identity of money, and the state of every account as the model has it."""
    assert not any(ledger.identity().values()), ledger.identity()
    with casino.turn() as book:
        for account_id, expected in ledger.accounts.items():
            account = book.account(account_id)
            assert {
                "currency": account.currency,
                "available": account.available_minor,
                "in_play": account.in_play_minor,
                "marks": dict(account.marks),
                "owed": account.owed_minor,
                "status": _status(account),
            } == expected


def check_events(casino: Casino, played: list[Played], *, after: int = 0) -> None:
    """What was stored: gapless, each event with its command's key, folding to what is known."""
    stored = notifications(casino, after=after)
    assert [event.id for event in stored] == list(range(after + 1, after + len(stored) + 1))
    versions: dict[str, list[int]] = defaultdict(list)
    for event in stored:
        versions[str(event.originator_id)].append(event.originator_version)
    for stream, numbers in versions.items():
        first = 1 if stream != "site" else numbers[0]
        assert numbers == list(range(first, first + len(numbers))), stream
    events = [casino.mapper.to_domain_event(event) for event in stored]
    _check_stamps(events, played, after)
    _check_folds(casino, set(versions))
    _check_house(events)


def check_secrets(casino: Casino, ledger: Ledger, played: list[Played]) -> None:
    """The seed of a shuffled shoe is nowhere to be seen before the shoe is closed."""
    states = b"".join(event.state for event in notifications(casino))
    answers = json.dumps([one.answer for one in played]).encode()
    for shoe in ledger.shoes.values():
        if shoe["source"] == "shuffled":
            seed = shoe["seed"].encode()
            assert (seed in states, seed in answers) == (not shoe["is_open"],) * 2


def _check_stamps(events: list[DomainEvent], played: list[Played], after: int) -> None:
    for one in played:
        command = one.step.command or {}
        for event in events[one.head_before - after : one.head_after - after]:
            assert event.key == command["key"]
            assert event.actor == command.get("actor", one.step.client)
            if "at" in command:
                assert event.at == datetime.fromisoformat(command["at"])
            else:
                assert event.at >= one.step.now


def _check_folds(casino: Casino, streams: set[str]) -> None:
    """Every aggregate folded anew from its events is the one that the ledger decides by."""
    with casino.turn() as book:
        for stream in streams:
            kind, _, name = stream.partition(":")
            known = getattr(book, kind)(name) if name else book.site()
            anew = type(known)(stream)
            for event in casino.recorder.select_events(stream):
                anew = anew.apply(casino.mapper.to_domain_event(event))
            assert anew == known


def _check_house(events: list[Any]) -> None:
    """What the rounds' latest settlements say of the house is what the accounts' events say."""
    settled: dict[tuple[str, str], Any] = {}
    by_rounds: Counter[str] = Counter()
    by_accounts: Counter[str] = Counter()
    for event in events:
        match event.TOPIC:
            case "round.bet_settled":
                settled[event.originator_id, event.bet_id] = event
            case "account.commission_charged" | "account.commission_marked":
                by_accounts["commission"] += event.commission_minor
            case "account.win_paid":
                by_accounts["won"] += event.win_minor
            case "account.stake_lost":
                by_accounts["lost"] += event.stake_minor
            case "account.settlement_reversed":
                by_accounts["commission"] -= event.refunded_minor + event.unmarked_minor
                by_accounts["won"] -= event.win_minor
                by_accounts["lost"] -= event.stake_minor * (event.result == "lost")
    for event in settled.values():
        by_rounds["commission"] += event.commission_minor
        by_rounds["won"] += event.win_minor
        by_rounds["lost"] += event.stake_minor * (event.result == "lost")
    assert +by_rounds == +by_accounts


def head(casino: Casino) -> int:
    """The position of the latest event."""
    return casino.recorder.max_notification_id() or 0


def notifications(casino: Casino, *, after: int = 0) -> list[Notification]:
    """All events after a position."""
    found: list[Notification] = []
    while page := casino.recorder.select_notifications(after + len(found) + 1, _PAGE):
        found += page
    return found


def in_memory() -> Casino:
    """A ledger that is gone with the process."""
    return Casino(IN_MEMORY)


def sequence(seed: int, *, prefix: str = "", start: datetime = START) -> Generator:
    """The generator of one sequence."""
    return Generator(seed, prefix=prefix, start=start)


def story(played: list[Played], faults: list[str]) -> str:
    """The commands up to a fault as NDJSON, and what is wrong with the last answer."""
    lines = "\n".join(one.step.line.decode(errors="backslashreplace") for one in played)
    last = played[-1]
    return (
        f"\n{lines}\n\nThe last one, from {last.step.client} at {last.step.now.isoformat()},"
        f" was answered {json.dumps(last.answer)}\n" + "\n".join(faults)
    )


def _is_remembered(answer: Answer) -> bool:
    return answer["ok"] or answer["error"]["code"] not in ("invalid_command", "key_reused")


def _status(account: Any) -> str:
    return "closed" if account.is_closed else "frozen" if account.is_frozen else "open"


def _as_json(answer: Answer) -> Answer:
    """The answer as a client reads it."""
    return json.loads(json.dumps(answer))
