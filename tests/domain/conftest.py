"""Given events, when a command, then events or a refusal: for each aggregate."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Generic, Self, TypeVar

import pytest

from domain.account import Account
from domain.errors import Refused
from domain.event import DomainEvent, Stamp
from domain.round import Round
from domain.shoe import Shoe
from domain.table import Table

STAMP = Stamp(at=datetime(2026, 1, 2, 12, 0, tzinfo=UTC), actor="dealer-7", key="key-1")

Fact = Callable[..., DomainEvent]
"""An event that lacks its place and its stamp, as `partial(ShoePlaced, shoe_id="s1")`."""

State = TypeVar("State", bound=Any)


@dataclass
class Scenario(Generic[State]):
    """One aggregate's history, the command that is tried on it, and what that comes to."""

    state: State
    answer: Any = None

    def given(self, *facts: Fact) -> Self:
        for event in self._numbered(facts):
            self.state = self.state.apply(event)
        return self

    def when(self, command: Callable[..., Any], *arguments: Any, **named: Any) -> Self:
        before = self.state
        try:
            self.answer = command(self.state, *arguments, **named, stamp=STAMP)
        except Refused as refused:
            self.answer = refused
        assert self.state == before
        return self

    def then(self, *facts: Fact) -> Self:
        if isinstance(self.answer, Refused):
            raise self.answer
        answered = self.answer if isinstance(self.answer, tuple) else (self.answer,)
        assert answered == self._numbered(facts)
        for event in answered:
            self.state = self.state.apply(event)
        return self

    def then_refused(self, code: str, *, field: str | None = None) -> Self:
        assert isinstance(self.answer, Refused), self.answer
        assert (self.answer.code, self.answer.field) == (code, field)
        return self

    def _numbered(self, facts: tuple[Fact, ...]) -> tuple[DomainEvent, ...]:
        return tuple(
            fact(*STAMP.on(self.state.id, version))
            for version, fact in enumerate(facts, self.state.version + 1)
        )


@pytest.fixture
def stamp() -> Stamp:
    return STAMP


@pytest.fixture
def table() -> Scenario[Table]:
    return Scenario(Table("table:t1"))


@pytest.fixture
def shoe() -> Scenario[Shoe]:
    return Scenario(Shoe("shoe:s1"))


@pytest.fixture
def a_round() -> Scenario[Round]:
    return Scenario(Round("round:r1"))


@pytest.fixture
def account() -> Scenario[Account]:
    return Scenario(Account("account:a1"))
