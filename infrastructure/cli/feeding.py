"""The commands that give the ledger to others: `feed` and `schema`."""

import re
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Annotated, Any
from uuid import uuid4

import typer

from domain.event import EVENT_TYPES
from infrastructure.cli.ledger import asking, say
from infrastructure.cli.output import Progress, console, print_json, print_rows
from infrastructure.feed import schemas
from infrastructure.feed.errors import FeedError
from infrastructure.feed.following import follow
from infrastructure.feed.log import FeedLog
from infrastructure.feed.publishing import Publisher
from infrastructure.feed.sink import Sink
from infrastructure.feed.source import start_incarnation
from infrastructure.feed.verify import Comparison
from infrastructure.settings import load_settings
from infrastructure.store.errors import StoreError

FINDINGS = 1
_NOT_INSTALLED = "There is no client for NATS: pip install 'puntobanco[nats]'"

feed = typer.Typer(no_args_is_help=True, help="Give every event to others, once and in order.")
schema = typer.Typer(no_args_is_help=True, help="The JSON Schemas of what the feed sends.")

_AsJson = Annotated[bool, typer.Option("--json", help="JSON on stdout and nothing else there.")]
_Url = Annotated[
    str | None,
    typer.Option(
        help="The NATS servers, separated by commas; default: PUNTO_NATS_URL.", show_default=False
    ),
]
_Credentials = Annotated[
    Path | None, typer.Option("--credentials", help="A file of NATS credentials.")
]


def register(app: typer.Typer) -> None:
    """Adds these commands to the application."""
    feed.command("tail")(tail)
    feed.command("nats")(publish_to_nats)
    feed.command("verify")(verify)
    feed.command("new-incarnation")(new_incarnation)
    schema.command("export")(export_schemas)
    app.add_typer(feed, name="feed")
    app.add_typer(schema, name="schema")


def tail(
    start: Annotated[
        int, typer.Option("--from", min=0, help="The first position that is wanted.")
    ] = 1,
    held: Annotated[
        str | None,
        typer.Option(
            metavar="POSITION[:HASH]",
            help="Go on after this position, the last that you hold; with its contenthash,"
            " stop if the ledger holds something else there.",
        ),
    ] = None,
    types: Annotated[
        str | None, typer.Option(help="Only events of these topics, separated by commas.")
    ] = None,
    following: Annotated[
        bool, typer.Option("--follow", help="Go on with what is recorded later, until stopped.")
    ] = False,
) -> None:
    """Print the events as CloudEvents, a JSON line each, in the order of their positions.

    Example: punto feed tail --from 100 --types account.win_paid,account.stake_lost
    """
    after, content_hash = max(start - 1, 0), None
    if held is not None:
        if start != 1:
            raise typer.BadParameter("--from and --held exclude each other")
        after, content_hash = _held(held)
    topics = _topics(types)
    with asking(caught_up=False) as ledger:
        if after > ledger.reader.head():
            raise FeedError(
                f"The ledger ends at position {ledger.reader.head()}, before {after}: it is"
                " another store, or one that was restored"
            )
        for page in follow(
            ledger.database.connect,
            after=after,
            held=content_hash,
            source=None,
            wait=following,
            say=say,
        ):
            wanted = [sent.line for sent in page if not topics or sent.topic in topics]
            sys.stdout.buffer.write(b"".join(line + b"\n" for line in wanted))
            sys.stdout.flush()


def _held(text: str) -> tuple[int, str | None]:
    position, _, content_hash = text.partition(":")
    is_hash = not content_hash or re.fullmatch(r"[0-9a-f]{64}", content_hash) is not None
    if not (position.isascii() and position.isdecimal() and is_hash):
        raise typer.BadParameter(f"--held {text!r} is not a position, or a position:contenthash")
    return int(position), content_hash or None


def _topics(types: str | None) -> Collection[str]:
    topics = [name.strip() for name in (types or "").split(",") if name.strip()]
    for name in topics:
        if name not in EVENT_TYPES:
            raise typer.BadParameter(f"there are no events of the type {name!r}")
    return topics


def publish_to_nats(
    stream: Annotated[
        str | None,
        typer.Option(
            help="The stream, made if it is not there; default: PUNTO_NATS_STREAM or LEDGER.",
            show_default=False,
        ),
    ] = None,
    url: _Url = None,
    once: Annotated[
        bool, typer.Option("--once", help="End when everything there is has been published.")
    ] = False,
    monitors: Annotated[
        list[str] | None,
        typer.Option(
            "--monitor",
            metavar="URL",
            help="A server's monitoring address, for each server of a cluster;"
            " default: port 8222 beside the server.",
            show_default=False,
        ),
    ] = None,
    may_lose: Annotated[
        bool,
        typer.Option(
            "--may-lose", help="Accept a server that confirms before it has written to disk."
        ),
    ] = False,
    replicas: Annotated[
        int, typer.Option(min=1, max=5, help="How many servers keep a stream that is made.")
    ] = 1,
    credentials: _Credentials = None,
) -> None:
    """Publish every event to a stream of NATS JetStream, and go on with what is recorded later.

    It goes on after the last event that the stream holds, whenever it was killed.

    Example: punto feed nats --url nats://localhost:4222 --stream LEDGER
    """
    place: dict[str, Any] = {
        "stream": _stream(stream),
        "monitors": tuple(monitors or ()),
        "may_lose": may_lose,
        "replicas": replicas,
        "credentials": credentials,
        "publisher": uuid4().hex,
    }
    with asking(caught_up=False) as ledger:
        publisher = Publisher(
            ledger.database.connect,
            lambda: _jetstream(url, **place),
            source=FeedLog(ledger.connection).source,
            say=say,
        )
        publisher.run(wait=not once)
        say(f"{place['stream']} holds position {publisher.position}")


def verify(
    stream: Annotated[
        str | None,
        typer.Option(
            help="The stream of NATS JetStream; default: PUNTO_NATS_STREAM or LEDGER.",
            show_default=False,
        ),
    ] = None,
    to: Annotated[
        Path | None,
        typer.Option("--to", metavar="DIR", help="The folder of an export.", show_default=False),
    ] = None,
    url: _Url = None,
    credentials: _Credentials = None,
    as_json: _AsJson = False,
) -> None:
    """Compare what is downstream with the ledger; exit code 1 on any difference.

    It is a stream, or the files of `punto export`.

    Example: punto feed verify --url nats://localhost:4222 --stream LEDGER
    """
    if stream is not None and to is not None:
        raise typer.BadParameter("one of the two is compared: --stream NAME or --to DIR")
    document = _compare_files(to) if to else _compare_stream(stream, url, credentials)
    if as_json:
        print_json(document)
    else:
        _print_comparison(document)
    raise typer.Exit(0 if document["ok"] else FINDINGS)


def _compare_stream(
    stream: str | None, url: str | None, credentials: Path | None
) -> dict[str, Any]:
    with (
        asking(caught_up=False) as ledger,
        _jetstream(url, stream=_stream(stream), credentials=credentials, read_only=True) as sink,
        Progress("Items compared") as progress,
    ):
        head = ledger.reader.head()
        comparison = Comparison(FeedLog(ledger.connection))
        comparison.compare(sink.kept(), lambda place: progress(place, max(head, place)))
    return comparison.to_json()


def _compare_files(folder: Path) -> dict[str, Any]:
    # It loads Arrow, which no other command has to wait for.
    from infrastructure.exports.verifying import verify as verify_files

    with asking() as ledger, Progress("Events compared") as progress:
        return verify_files(ledger.connection, folder, progress=progress)


def _print_comparison(document: dict[str, Any]) -> None:
    console.print(f"Source {document['source']}", soft_wrap=True)
    has_tables = any("table" in line for line in (*document["ranges"], *document["differences"]))
    of_table = [("table", lambda line: line["table"])] if has_tables else []
    print_rows(
        "Positions",
        (
            *of_table,
            ("from", lambda line: line["from"]),
            ("to", lambda line: line["to"]),
            ("ledger", lambda line: line["ledger"]["count"]),
            ("downstream", lambda line: line["downstream"]["count"]),
            ("hash", lambda line: line["downstream"]["hash"][:16]),
            ("", lambda line: "equal" if line["ok"] else "differs"),
        ),
        document["ranges"],
    )
    if document["behind"]:
        console.print(f"Not yet downstream: {document['behind']:,}")
    if document["ok"]:
        console.print("No difference")
        return
    console.print(f"Differences: {document['count_differences']:,}")
    print_rows(
        "Differences",
        (
            ("problem", lambda line: line["problem"]),
            *of_table,
            ("position", _positions),
            ("place", lambda line: line.get("place") or line.get("path")),
            ("what", _what),
        ),
        document["differences"],
    )


def _what(difference: dict[str, Any]) -> str | None:
    """What of a record differs, or else which one it is."""
    if attributes := difference.get("attributes"):
        return ", ".join(attributes)
    named = (difference.get(name) for name in ("source", "why", "round_id", "account_id"))
    return next((each for each in named if each is not None), None)


def _positions(difference: dict[str, Any]) -> str | None:
    first, last = difference.get("from"), difference.get("to")
    if first is None:
        return difference.get("position")
    return str(first) if first == last else f"{first}-{last}"


def new_incarnation(
    site: Annotated[
        str | None, typer.Option(help="The site's name; default: as before.", show_default=False)
    ] = None,
) -> None:
    """Start a new source, after a backup was restored, a replica was lost or a store was copied.

    Positions are then given out a second time. What is downstream of the old source stays as it
    is; the new one is published to a place of its own, from the first event on.

    Example: punto feed new-incarnation
    """
    with asking(caught_up=False) as ledger:
        if not ledger.database.can_write:
            raise StoreError("This role may only read, and a new incarnation is written down")
        print(start_incarnation(ledger.connection, site=site))


def export_schemas(
    to: Annotated[Path, typer.Option("--to", help="The directory.")] = Path("schemas"),
) -> None:
    """Write the JSON Schema of the envelope and of each event's data, a file each.

    Example: punto schema export --to schemas
    """
    print(f"{schemas.export(to)} schemas in {to}")


def feed_positions(head: int) -> list[dict[str, Any]]:
    """How far each feed that the environment names has come, and how far it is behind."""
    settings = load_settings()
    if settings.nats_url is None:
        return []
    position, error = None, None
    try:
        with _jetstream(None, stream=settings.nats_stream, read_only=True) as sink:
            held = sink.last()
            position = held.position if held else 0
    except FeedError as failure:
        error = str(failure)
    return [
        {
            "name": settings.nats_stream,
            "position": position,
            "lag_events": None if position is None else max(head - position, 0),
            "error": error,
        }
    ]


def _stream(name: str | None) -> str:
    name = load_settings().nats_stream if name is None else name
    if not name or not name.isascii() or not all(each.isalnum() or each in "_-" for each in name):
        raise typer.BadParameter(
            f"a stream is named in letters, digits, - and _, such as LEDGER, not {name!r}"
        )
    return name


def _jetstream(url: str | None, *, read_only: bool = False, **place: Any) -> Sink:
    try:
        from infrastructure.feed.jetstream import JetStream, Place
    except ModuleNotFoundError:
        # The client comes with its extra.
        raise FeedError(_NOT_INSTALLED) from None
    if url is None:
        configured = load_settings().nats_url
        if configured is None:
            raise typer.BadParameter("Which server? --url nats://host:4222 or PUNTO_NATS_URL")
        url = configured.get_secret_value()
    return JetStream(Place(url=url, **place), read_only=read_only)
