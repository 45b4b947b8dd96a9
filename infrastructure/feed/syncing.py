"""Whether a NATS server has on disk what it has confirmed.

As it comes, JetStream writes to disk every two minutes and confirms before:
what was confirmed in between is lost with the machine's power. A server says
how it is set at its monitoring address alone.
"""

import asyncio
from urllib.error import URLError
from urllib.request import urlopen

import msgspec
from nats.aio.client import Client

from infrastructure.feed.errors import FeedError

MONITOR_PORT = 8222
ASK_SECONDS = 3


class _Settings(msgspec.Struct):
    sync_always: bool = False


class _JetStream(msgspec.Struct):
    config: _Settings | None = None


class _Varz(msgspec.Struct):
    server_id: str = ""
    jetstream: _JetStream | None = None


async def must_sync(client: Client, monitors: tuple[str, ...]) -> None:
    """Raises FeedError unless every server asked syncs always, the one of `client` among them.

    Without monitors the one beside it, at the usual port, is asked.
    """
    connected = client.connected_url
    host = connected.hostname if connected else "localhost"
    addresses = monitors or (f"http://{host}:{MONITOR_PORT}",)
    asked = set()
    for address in addresses:
        varz = await asyncio.to_thread(_varz, address)
        config = varz.jetstream.config if varz.jetstream else None
        if config is None or not config.sync_always:
            raise FeedError(
                f"The NATS server of {address} confirms before it has written to disk: set"
                " `sync_interval: always` in its jetstream block, or say --may-lose"
            )
        asked.add(varz.server_id)
    # The library shows the server's greeting in no other way.
    if client._server_info.get("server_id") not in asked:
        raise FeedError(_unknown("is that of another server than the feed's", addresses))


def _varz(address: str) -> _Varz:
    if not address.startswith(("http://", "https://")):
        address = f"http://{address}"
    try:
        with urlopen(f"{address.rstrip('/')}/varz", timeout=ASK_SECONDS) as answer:  # noqa: S310
            return msgspec.json.decode(answer.read(), type=_Varz)
    except (URLError, OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise FeedError(_unknown(f"does not answer ({reason})", (address,))) from None


def _unknown(what: str, addresses: tuple[str, ...]) -> str:
    return (
        f"Nothing says whether the NATS server writes to disk before it confirms:"
        f" {', '.join(addresses)} {what}; name its monitoring address with --monitor, or say"
        " --may-lose"
    )
