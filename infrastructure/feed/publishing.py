"""Publishes the ledger to a sink: every event once, in order, whoever is killed in between.

The event table is the outbox, and the position is read back from the sink
itself: there is no second record that could disagree with it.
"""

from infrastructure.feed.errors import FeedError, Outrun, SinkAway
from infrastructure.feed.following import Connect, Patience, Say, follow
from infrastructure.feed.sink import Held, OpenSink


class Publisher:
    """One run of the feed; `position` is that of the last event known to be downstream."""

    def __init__(self, connect: Connect, open_sink: OpenSink, *, source: str, say: Say) -> None:
        self.position = 0
        self._connect = connect
        self._open_sink = open_sink
        self._source = source
        self._say = say
        self._has_begun = False
        self._has_published = False
        self._overtaken = 0

    def run(self, *, wait: bool) -> None:
        """Publishes what is not downstream yet; with `wait` also what comes later, without end.

        Raises FeedError where downstream is not this ledger's, does not answer, or is
        published to by another feed.
        """
        patience = Patience("Downstream", self._say)
        while True:
            try:
                self._session(patience, wait=wait)
                return
            except SinkAway as error:
                if not self._has_begun:
                    raise
                patience.wait(error)
            except Outrun:
                continue  # Whoever was ahead is seen by the last item.

    def _session(self, patience: Patience, *, wait: bool) -> None:
        with self._open_sink() as sink:
            held = sink.last()
            self._must_be_ours(held)
            patience.reward()
            self.position = held.position if held else 0
            self._has_begun = True
            for page in follow(
                self._connect,
                after=self.position,
                held=held.hash if held else None,
                source=self._source,
                wait=wait,
                say=self._say,
            ):
                sink.publish(page, after=self.position)
                self.position = page[-1].position
                self._has_published = True

    def _must_be_ours(self, held: Held | None) -> None:
        if held is None:
            return
        if held.source != self._source:
            raise FeedError(
                f"What is downstream comes from {held.source}, and this store is {self._source}:"
                " publish to a place of its own"
            )
        if not self._has_begun or held.is_own or held.position <= self.position:
            return
        # A feed that was killed just before may have had a batch on its way, which arrives
        # before anything of this one.
        self._overtaken += 1
        if self._has_published or self._overtaken > 1:
            raise FeedError(
                f"Another feed publishes to the same place and has come to position"
                f" {held.position}: this one stops"
            )
