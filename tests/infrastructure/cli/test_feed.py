"""`punto feed` gives every event to others once, in order, and says in one line why it cannot."""

import json
import os
import signal
import sys
import time
from collections import defaultdict

import pytest
from jsonschema.validators import validator_for

from domain.event import EVENT_TYPES
from infrastructure.feed.schemas import schemas
from tests.infrastructure.nats import NatsServer, free_ports

VALIDATORS = {schema["$id"]: validator_for(schema)(schema) for _, schema in schemas()}


@pytest.fixture
def nats(tmp_path):
    with NatsServer(tmp_path / "nats") as server:
        yield server


@pytest.fixture
def feed(punto, nats):
    """Publishes what there is to a stream."""

    def publish(stream="LEDGER", *options, url=None):
        return punto(
            "feed", "nats", "--url", nats.url, "--monitor", nats.monitor,
            "--stream", stream, "--once", *options, url=url,
        )  # fmt: skip

    return publish


@pytest.fixture
def verify(punto, nats):
    def compare(stream="LEDGER"):
        return punto("feed", "verify", "--url", nats.url, "--stream", stream, "--json")

    return compare


def test_the_tail_gives_every_event_as_a_cloud_event_that_its_schema_describes(punto, played):
    for validator in VALIDATORS.values():
        validator.check_schema(validator.schema)
    items = punto("feed", "tail").lines
    assert [item["id"] for item in items] == [str(n) for n in range(1, played[-1]["position"] + 1)]
    for item in items:
        VALIDATORS["urn:puntobanco:schema:envelope:v1"].validate(item)
        VALIDATORS[item["dataschema"]].validate(item["data"])
    assert len({item["source"] for item in items}) == 1
    assert [item["sequence"] for item in items] == sorted(item["sequence"] for item in items)


def test_what_is_played_from_a_shoe_has_it_for_its_partition_and_an_account_has_itself(
    punto, played
):
    partitions = defaultdict(set)
    for item in punto("feed", "tail").lines:
        partitions[item["subject"]].add(item["partitionkey"])
    assert partitions["round:R1"] == partitions["shoe:S1"] == {"shoe:S1"}
    assert partitions["round:P3"] == {"shoe:S2"}
    assert partitions["account:alice"] == {"account:alice"}
    assert partitions["site"] == {"site"}
    assert partitions["table:T1"] == {"table:T1", "shoe:S1"}


def test_the_tail_goes_on_anywhere_with_the_same_bytes(punto, played):
    whole = punto("feed", "tail").out.splitlines()
    for position in (1, 2, len(whole) // 2, len(whole)):
        from_there = punto("feed", "tail", "--from", str(position)).out.splitlines()
        assert from_there == whole[position - 1 :]
        held = f"{position}:{json.loads(whole[position - 1])['contenthash']}"
        assert punto("feed", "tail", "--held", held).out.splitlines() == whole[position:]


def test_a_consumer_that_holds_something_else_is_told_so_in_one_line(punto, played):
    head = played[-1]["position"]
    assert (
        "is not what the ledger holds"
        in punto("feed", "tail", "--held", "5:" + "0f" * 32).refusal()
    )
    assert (
        f"ends at position {head}"
        in punto("feed", "tail", "--held", "99999:" + "0f" * 32).refusal()
    )
    assert f"ends at position {head}" in punto("feed", "tail", "--from", "99999").refusal()
    for held in ("five", "5:00ff", "5:zz", "-5"):
        assert "not a position" in punto("feed", "tail", "--held", held).refusal()
    assert "exclude" in punto("feed", "tail", "--held", "5", "--from", "3").refusal()


def test_the_tail_gives_the_wanted_types_alone(punto, played):
    items = punto("feed", "tail", "--types", "account.win_paid,round.settled").lines
    assert {item["type"] for item in items} == {"account.win_paid", "round.settled"}
    assert (
        "no events of the type 'account.won'"
        in punto("feed", "tail", "--types", "account.won").refusal()
    )


def test_what_was_written_about_a_player_stays_in_the_ledger(punto, played):
    assert "papers" in punto("events", "account:bob", "--json").out
    assert "papers" not in punto("feed", "tail").out


def test_a_tail_that_follows_shows_what_is_recorded_later_at_once(punto, start_punto, played):
    tail = start_punto("feed", "tail", "--follow")
    for _ in range(played[-1]["position"]):
        tail.stdout.readline()
    (answer,) = punto.run([{"command": "open_account", "key": "x", "account_id": "eve",
                            "currency": "USD"}])  # fmt: skip
    item = json.loads(tail.stdout.readline())
    tail.send_signal(signal.SIGINT)
    rest, complaint = tail.communicate(timeout=20)
    assert (item["id"], item["subject"]) == (str(answer["position"]), "account:eve")
    assert (rest, tail.returncode, complaint.count(b"\n")) == (b"", 130, 1)


def test_a_tail_whose_connection_is_ended_goes_on_where_it_was(punto, start_punto, sql, played):
    tail = start_punto("feed", "tail", "--follow")
    for _ in range(played[-1]["position"]):
        tail.stdout.readline()
    sql("""SELECT pg_terminate_backend(pid) FROM pg_stat_activity
            WHERE datname = current_database() AND application_name = 'punto'""")
    punto.run([{"command": "open_account", "key": "x", "account_id": "eve", "currency": "USD"}])
    assert json.loads(tail.stdout.readline())["subject"] == "account:eve"


def test_a_reader_of_the_tail_may_leave(start_punto, played):
    tail = start_punto("feed", "tail", "--follow")
    tail.stdout.close()
    assert (tail.stderr.read(), tail.wait(60)) == (b"", 0)


def test_a_stream_holds_what_the_tail_shows_and_is_found_equal(punto, feed, verify, played):
    head = played[-1]["position"]
    assert feed().err == f"LEDGER holds position {head}\n"
    assert feed().err == f"LEDGER holds position {head}\n"
    ran = verify()
    assert ran.code == 0
    document = ran.document
    assert (document["ok"], document["position"], document["behind"]) == (True, head, 0)
    (only,) = document["ranges"]
    assert only["ledger"] == only["downstream"]
    assert only["downstream"]["count"] == head
    usd = document["currencies"]["USD"]
    assert usd["ledger"] == usd["downstream"]
    assert usd["ledger"]["account.funds_deposited.amount_minor"] == 900_00


def test_what_is_not_yet_downstream_is_no_difference_and_is_counted(punto, feed, verify, played):
    feed()
    punto.run([{"command": "open_account", "key": "x", "account_id": "eve", "currency": "USD"}])
    ran = verify()
    assert (ran.code, ran.document["behind"]) == (0, 1)


def test_a_stream_of_another_store_is_left_alone(punto, make_url, feed, played, evening):
    feed()
    punto("feed", "new-incarnation", "--site", "north")
    assert "publish to a place of its own" in feed().refusal()
    assert feed("NORTH").code == 0
    assert punto("feed", "tail").lines[0]["source"].startswith("urn:puntobanco:north:")


def test_a_stream_that_is_ahead_of_a_restored_ledger_stops_the_feed(punto, make_url, feed, played):
    feed()
    # The template of the tests' databases is one store, as a backup and its original are.
    restored = make_url()
    assert "ends at 0" in feed(url=restored).refusal()
    punto.run([
        {"command": "open_account", "key": f"o{n}", "account_id": f"o{n}", "currency": "USD"}
        for n in range(played[-1]["position"])
    ], url=restored)  # fmt: skip
    assert "is not what the ledger holds" in feed(url=restored).refusal()


def test_a_server_that_confirms_too_early_is_refused_unless_told(punto, played, tmp_path):
    with NatsServer(tmp_path / "lax", sync="1m") as lax:
        common = ("feed", "nats", "--url", lax.url, "--stream", "L", "--once")
        assert "sync_interval: always" in punto(*common, "--monitor", lax.monitor).refusal()
        assert "--monitor" in punto(*common).refusal()
        assert punto(*common, "--may-lose").code == 0


def test_the_monitor_of_another_server_says_nothing(punto, nats, played, tmp_path):
    with NatsServer(tmp_path / "lax", sync="1m") as lax:
        asked = ("--url", lax.url, "--monitor", nats.monitor)
        assert "another server" in punto("feed", "nats", "--stream", "L", *asked).refusal()


def test_servers_that_are_away_or_keep_us_out_are_said_in_one_line(punto, played, tmp_path):
    (nobody,) = free_ports(1)
    away = f"nats://feed:secret@127.0.0.1:{nobody}"
    refusal = punto("feed", "nats", "--url", away, "--stream", "L").refusal()
    assert "does not answer" in refusal
    assert "secret" not in refusal
    with NatsServer(tmp_path / "locked", password="secret") as locked:
        wrong = locked.url.replace("//", "//feed:wrong@")
        refusal = punto("feed", "nats", "--url", wrong, "--stream", "L").refusal()
        assert "wrong credentials" in refusal
        right = locked.url.replace("//", "//feed:secret@")
        ran = punto("feed", "nats", "--url", right, "--stream", "L", "--once", "--monitor",
                    locked.monitor)  # fmt: skip
        assert ran.code == 0, ran


def test_a_full_server_is_said_in_one_line_and_what_was_stored_stands(punto, played, tmp_path):
    with NatsServer(tmp_path / "small", limit="max_file_store: 20000") as small:
        ran = punto("feed", "nats", "--url", small.url, "--stream", "L", "--monitor",
                    small.monitor)  # fmt: skip
        assert ran.code == 2
        assert "insufficient resources" in ran.err.splitlines()[-1]


def test_of_two_feeds_one_goes_on_and_the_other_stops_with_one_line(
    punto, start_punto, nats, verify, played
):
    common = ("feed", "nats", "--url", nats.url, "--monitor", nats.monitor, "--stream", "LEDGER")
    feeds = [start_punto(*common) for _ in range(2)]
    deadline = time.monotonic() + 60
    number = 0
    while all(each.poll() is None for each in feeds):
        assert time.monotonic() < deadline
        number += 1
        punto.run([{"command": "open_account", "key": f"x{number}", "account_id": f"x{number}",
                    "currency": "USD"}])  # fmt: skip
    (loser,) = (each for each in feeds if each.poll() is not None)
    (winner,) = (each for each in feeds if each.poll() is None)
    _, complaint = loser.communicate()
    assert loser.returncode == 2
    assert b"Another feed publishes to the same place" in complaint
    assert complaint.count(b"\n") == 1
    winner.send_signal(signal.SIGINT)
    winner.communicate(timeout=30)
    assert verify().document["differences"] == []


def test_the_status_shows_where_the_feed_is(punto, nats, feed, monkeypatch, played):
    feed()
    punto.run([{"command": "open_account", "key": "x", "account_id": "eve", "currency": "USD"}])
    assert punto("status", "--json").document["feeds"] == []
    monkeypatch.setenv("PUNTO_NATS_URL", nats.url)
    (line,) = punto("status", "--json").document["feeds"]
    assert line == {"name": "LEDGER", "position": played[-1]["position"], "lag_events": 1,
                    "error": None}  # fmt: skip
    nats.kill()
    ran = punto("status", "--json")
    assert ran.code == 0
    (line,) = ran.document["feeds"]
    assert "does not answer" in line["error"]


def test_the_schemas_are_written_a_file_each(punto, tmp_path):
    ran = punto("schema", "export", "--to", str(tmp_path / "s"))
    assert ran.code == 0
    names = {path.name for path in (tmp_path / "s").iterdir()}
    events = {f"{topic}.v{kind.class_version}.json" for topic, kind in EVENT_TYPES.items()}
    assert names == {"envelope.v1.json", *events}


def test_a_program_without_the_client_says_what_to_install(punto_process, tmp_path):
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.modules['nats'] = None\n")
    ran = punto_process(
        "feed", "nats", "--url", "nats://x", "--stream", "L",
        PYTHONPATH=os.pathsep.join([str(tmp_path), *sys.path]),
    )  # fmt: skip
    assert "pip install 'puntobanco[nats]'" in ran.refusal()
