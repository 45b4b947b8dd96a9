"""The commands of the service: `serve`, its keys, and the rights in the database."""

import logging
import re
import sys
from dataclasses import asdict
from functools import partial
from typing import Annotated

import typer

from infrastructure.api import keys
from infrastructure.api.keys import ApiKey
from infrastructure.api.roles import ROLES_OF_KEYS, Role
from infrastructure.cli.feeding import feed_positions
from infrastructure.cli.keeping import database
from infrastructure.cli.ledger import NotFoundError, asking, casino_on, say
from infrastructure.cli.output import console, print_json, print_rows
from infrastructure.commands.contract import ID_PATTERN
from infrastructure.settings import load_settings
from infrastructure.store.connection import open_database
from infrastructure.store.errors import StoreError
from infrastructure.store.grants import Access, grant
from infrastructure.store.schema import LEDGER_ROLE

NOT_INSTALLED = "There is no HTTP service: pip install 'puntobanco[service]'"

UNSPECIFIED = ("0.0.0.0", "::")  # noqa: S104 - named, not bound
"""They mean every address, and nobody calls them by that."""

holding = typer.Typer(no_args_is_help=True, help="The keys of the service.")

log = logging.getLogger("punto.serve")

_AsJson = Annotated[bool, typer.Option("--json", help="JSON on stdout and nothing else there.")]


def register(app: typer.Typer) -> None:
    """Adds these commands to the application."""
    app.command("serve")(serve)
    app.add_typer(holding, name="key")


def serve(
    host: Annotated[str, typer.Option(help="The address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = 8321,
    name: Annotated[
        list[str] | None,
        typer.Option(help="A host name under which it is reached, beside the address."),
    ] = None,
    shared_port: Annotated[
        bool, typer.Option("--shared-port", help="Let several processes listen at one port.")
    ] = False,
) -> None:
    """Serve the ledger over HTTP, until stopped.

    Without any key it listens on this machine alone, and whoever reaches it may
    do everything. As soon as there is a key, every caller needs one. From when it
    listens on, its log on stderr is a line of JSON for each request.

    Example: punto serve --port 8321
    """
    try:
        from infrastructure.api.application import make_application
        from infrastructure.api.doors import LOOPBACK_NAMES, is_loopback
        from infrastructure.api.logs import log_as_json
        from infrastructure.api.server import Server, bind
        from infrastructure.api.service import Service
        from infrastructure.pages.route import tell
        from infrastructure.pages.router import pages_router
    except ModuleNotFoundError:
        # It comes with an extra, as the embedded server does.
        raise StoreError(NOT_INSTALLED) from None
    is_local = is_loopback(host)
    if host in UNSPECIFIED and not name:
        raise typer.BadParameter(f"--host {host} needs a --name, under which it is reached")
    hosts = {host, *(name or ()), *(LOOPBACK_NAMES if is_local else ())}
    with open_database(load_settings(), progress=say) as ledger_database:
        ledger_database.check_writable()
        with ledger_database.connect() as connection:
            has_keys = keys.are_there_keys(connection)
        if not has_keys and not is_local:
            raise StoreError(
                f"Nobody has a key, so it listens on this machine alone, and {host} is not that:"
                " `punto key create` makes one"
            )
        with bind(host, port, is_shared=shared_port) as listening:
            address, bound_port, *_ = listening.getsockname()
            shown = f"[{address}]" if ":" in address else address
            log_as_json(sys.stderr)
            with casino_on(ledger_database) as casino:
                service = Service(ledger_database, casino, is_open_without_keys=is_local)
                pages = pages_router(read_feeds=feed_positions)
                application = make_application(service, routers=[pages], hosts=hosts, tell=tell)
                ready = partial(_say_where, f"http://{shown}:{bound_port}", has_keys=has_keys)
                Server(application, ready=ready).run(sockets=[listening])


def _say_where(address: str, *, has_keys: bool) -> None:
    log.info("Serving %s", address)
    if not has_keys:
        log.warning(
            "Nobody has a key: it listens on this machine alone, and every caller may do all"
        )


def _role_of_a_key(name: str) -> Role:
    if name not in ROLES_OF_KEYS:
        raise typer.BadParameter(f"{name!r} is not one of {', '.join(ROLES_OF_KEYS)}")
    return Role(name)


@holding.command("create")
def create_key(
    owner: Annotated[str, typer.Option(help="Who holds it: the actor of all that it does.")],
    role: Annotated[
        Role,
        typer.Option(
            help=f"What it is for: {', '.join(ROLES_OF_KEYS)}.",
            metavar="ROLE",
            parser=_role_of_a_key,
        ),
    ],
    table: Annotated[
        list[str] | None, typer.Option(help="A table of a table's key; may be repeated.")
    ] = None,
    account: Annotated[str | None, typer.Option(help="The account of a player's key.")] = None,
    as_json: _AsJson = False,
) -> None:
    """Make a key and show it, once: it is stored hashed and cannot be shown again.

    Example: punto key create --owner pit-1 --role table --table T1 --table T2
    """
    for option, given in (("--owner", owner), ("--account", account), *_named(table)):
        _must_be_id(option, given)
    with asking(caught_up=False) as ledger:
        ledger.database.check_writable()
        created, key = keys.create_key(
            ledger.connection, owner=owner, role=role, tables=table or (), account=account
        )
    if as_json:
        print_json({**asdict(created), "key": key})
        return
    say(f"Key {created.id} of {owner}, role {role}. It is shown this once:")
    print(key)


def _named(tables: list[str] | None) -> list[tuple[str, str | None]]:
    return [("--table", table) for table in tables or ()]


def _must_be_id(option: str, given: str | None) -> None:
    if given is not None and not re.match(ID_PATTERN, given):
        raise typer.BadParameter(
            f"{option} {given!r} must be 1 to 64 of the characters A-Z a-z 0-9 . _ : -"
        )


@holding.command("list")
def list_keys(as_json: _AsJson = False) -> None:
    """List the keys, those that were revoked included, a line each; none is shown.

    Example: punto key list
    """
    with asking(caught_up=False) as ledger:
        lines = keys.list_keys(ledger.connection)
    if as_json:
        for line in lines:
            print_json(asdict(line))
        return
    print_rows(
        "Keys",
        (
            ("key", lambda line: line.id),
            ("owner", lambda line: line.owner),
            ("role", lambda line: line.role),
            ("for", lambda line: line.account or ", ".join(line.tables)),
            ("made", lambda line: f"{line.created_at:%Y-%m-%d %H:%M:%S}"),
            ("state", _state),
        ),
        lines,
    )


def _state(line: ApiKey) -> str:
    return "in use" if line.revoked_at is None else f"revoked {line.revoked_at:%Y-%m-%d %H:%M:%S}"


@holding.command("revoke")
def revoke_key(
    key: Annotated[str, typer.Argument(metavar="KEY", help="The key's id, as it is listed.")],
    as_json: _AsJson = False,
) -> None:
    """Revoke a key for good; a service that runs refuses it from some two seconds on.

    Example: punto key revoke 5f1c0a9be2d4
    """
    with asking(caught_up=False) as ledger:
        ledger.database.check_writable()
        revoked = keys.revoke_key(ledger.connection, key)
    if revoked is None:
        raise NotFoundError("There is no such key: `punto key list` lists them by their ids")
    if as_json:
        print_json(asdict(revoked))
    else:
        print(f"Key {revoked.id} of {revoked.owner} is revoked")


@database.command("grant")
def grant_rights(
    role: Annotated[str, typer.Argument(metavar="ROLE", help="A role that logs in.")],
    access: Annotated[
        Access, typer.Option("--as", help="What it may: service, auditor or reporting.")
    ],
) -> None:
    """Let a database role work as the service, or only read as an auditor or for reporting.

    A role that is not there is made, without a password. None of the three can
    change or delete what is recorded, nor switch its guard off.

    Example: punto db grant pit_service --as service
    """
    is_new = grant(load_settings(), role, access)
    made = ", which is new and has no password yet," if is_new else ""
    console.print(f"The role {role}{made} works as {access.value}", soft_wrap=True)
    if access is Access.SERVICE:
        say(f"It works as {LEDGER_ROLE}, which may add to the ledger and change nothing in it")
