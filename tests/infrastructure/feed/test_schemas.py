"""The published schemas: what they promise holds for as long as their version does."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from infrastructure.feed.envelope import PRIVATE
from infrastructure.feed.schemas import schemas

GOLDEN = Path(__file__).parents[2] / "golden"
CURRENT = dict(schemas())
RELEASED = {path.name: json.loads(path.read_text()) for path in (GOLDEN / "schemas").iterdir()}
SAMPLES = sorted((GOLDEN / "events").iterdir())


def broken_promises(old: Any, new: Any, place: str = "$") -> list[str]:
    """Where a reader of the old schema would stumble over what the new one allows."""
    broken = []
    old_fields, new_fields = old.get("properties", {}), new.get("properties", {})
    for name in old_fields:
        if name not in new_fields:
            broken.append(f"{place}.{name} is gone")
        else:
            broken += broken_promises(old_fields[name], new_fields[name], f"{place}.{name}")
    for name in set(old.get("required", ())) - set(new.get("required", ())):
        broken.append(f"{place}.{name} may be left out")
    told = ("title", "description", "properties", "required", "$defs", "$id", "$schema", "default")
    for rule in sorted({*old, *new} - set(told)):
        if old.get(rule) != new.get(rule):
            broken.append(f"{place}: {rule} was {old.get(rule)} and is {new.get(rule)}")
    for name, part in old.get("$defs", {}).items():
        if name not in new.get("$defs", {}):
            broken.append(f"{place}: {name} is gone")
        else:
            broken += broken_promises(part, new["$defs"][name], name)
    return broken


def test_every_schema_is_released():
    assert set(CURRENT) <= set(RELEASED), "`punto schema export --to tests/golden/schemas`, once"


@pytest.mark.parametrize("name", sorted(set(RELEASED) & set(CURRENT)))
def test_a_released_schema_keeps_its_promises(name):
    assert broken_promises(RELEASED[name], CURRENT[name]) == []


@pytest.mark.parametrize(
    ("change", "broken"),
    [
        (lambda s: s["properties"].pop("win_minor"), ["$.win_minor is gone"]),
        (lambda s: s["required"].remove("win_minor"), ["$.win_minor may be left out"]),
        (
            lambda s: s["properties"]["win_minor"].update(type="string"),
            ["$.win_minor: type was integer and is string"],
        ),
        (
            lambda s: s["$defs"]["Result"]["enum"].append("half"),
            [("Result: enum was ['lost', 'open', 'push', 'returned', 'won'] and is"
             " ['lost', 'open', 'push', 'returned', 'won', 'half']")],
        ),
        (lambda s: s["properties"].update(new={"type": "string"}), []),
        (lambda s: s.update(description="Better said."), []),
    ],
)  # fmt: skip
def test_a_change_is_told_from_one_that_breaks_readers(change, broken):
    old = json.loads(json.dumps(CURRENT["round.bet_settled.v1.json"]))
    new = json.loads(json.dumps(old))
    change(new)
    assert broken_promises(old, new) == broken


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_a_released_event_is_as_its_schema_says(path):
    data = json.loads(path.read_text())
    for field in PRIVATE.get(path.name.rsplit(".v", 1)[0], ()):
        del data[field]
    jsonschema.validate(data, RELEASED[path.name], jsonschema.Draft202012Validator)
    del data["key"]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(data, RELEASED[path.name], jsonschema.Draft202012Validator)
