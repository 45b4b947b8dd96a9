"""Makes pages of templates. Whatever comes from the ledger is escaped."""

from functools import lru_cache
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined

from domain.event import EVENT_TYPES
from domain.roads import DerivedRoad
from infrastructure.pages.account_page import about
from infrastructure.pages.cards import card_drawing
from infrastructure.pages.plots import bars_drawing
from infrastructure.pages.road_drawings import (
    bead_plate_drawing,
    big_road_drawing,
    derived_road_drawing,
    derived_road_text,
    road_name,
)
from infrastructure.pages.words import bet_name, event_name, spoken

LIVE_TOPICS = " ".join(
    topic for topic in sorted(EVENT_TYPES) if topic.startswith(("table.", "shoe.", "round."))
)
"""The events that change what the page of the tables shows."""


def render(template: str, **context: Any) -> str:
    """The page that a template makes of these."""
    return _environment().get_template(template).render(**context)


@lru_cache(maxsize=1)
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("infrastructure.pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["path"] = lambda name: quote(str(name), safe="")
    environment.globals.update(
        card=card_drawing,
        bead_plate=bead_plate_drawing,
        big_road=big_road_drawing,
        derived_road=derived_road_drawing,
        derived_road_text=derived_road_text,
        derived_roads=tuple(DerivedRoad),
        road_name=road_name,
        plot=bars_drawing,
        bet_name=bet_name,
        event_name=event_name,
        spoken=spoken,
        about=about,
        live_topics=LIVE_TOPICS,
    )
    return environment
