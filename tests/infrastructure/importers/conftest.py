"""An empty ledger in memory, and as many more as a test asks for."""

from collections.abc import Callable, Iterator

import pytest

from infrastructure.casino import Casino


@pytest.fixture
def make_casino() -> Iterator[Callable[[], Casino]]:
    made: list[Casino] = []

    def make() -> Casino:
        made.append(Casino({"PERSISTENCE_MODULE": "infrastructure.store.memory"}))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def casino(make_casino: Callable[[], Casino]) -> Casino:
    return make_casino()
