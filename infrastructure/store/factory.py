"""How the eventsourcing library gets at our database: its datastore and its factory, by our rules.

The module of the library is imported whole, for the library looks for exactly one factory class in
the module that PERSISTENCE_MODULE names.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from eventsourcing import persistence, postgres
from eventsourcing.utils import Environment, EnvType
from psycopg import Connection
from psycopg.rows import dict_row

from infrastructure.store.appending import PREPARE_APPEND

if TYPE_CHECKING:
    from infrastructure.store.recorder import LedgerRecorder

SCHEMA = "ledger"
EVENTS_TABLE = "stored_events"
IDLE_IN_TRANSACTION_SECONDS_MAX = 30
RECONNECT_SECONDS_MAX = 3
"""The pool tries to connect after pauses that double; so long, and then from the beginning."""


class LedgerDatastore(postgres.PostgresDatastore):
    """A pool of connections to the ledger.

    The library knows five parts of an address; ours is a whole connection string, so that sslmode,
    lists of hosts, options and the rest arrive."""

    def __init__(self, conninfo: str, *, pool_size: int = 1, max_overflow: int = 15) -> None:
        super().__init__(
            dbname="",
            host="",
            port="",
            user="",
            password="",
            connect_timeout=2,
            idle_in_transaction_session_timeout=IDLE_IN_TRANSACTION_SECONDS_MAX,
            pool_size=pool_size,
            max_overflow=max_overflow,
            pre_ping=False,
            schema=SCHEMA,
            originator_id_type="text",
            enable_db_functions=False,
        )
        # The pool opens at the first connection, so it has not used its address yet.
        self.pool.conninfo = conninfo
        self.pool.kwargs = {"row_factory": dict_row, "autocommit": True}
        self.pool.reconnect_timeout = RECONNECT_SECONDS_MAX
        self.conninfo = conninfo

    def after_connect_func(self) -> Callable[[Connection[Any]], None]:
        prepare = super().after_connect_func()

        def after_connect(connection: Connection[Any]) -> None:
            prepare(connection)
            # Every statement of a turn finds its rows by a key. It is planned once,
            # for an index, whatever the tables' sizes are thought to be.
            connection.execute("SET plan_cache_mode TO force_generic_plan")
            connection.execute("SET enable_seqscan TO off")
            connection.execute(PREPARE_APPEND)

        return after_connect

    def register_type_adapters(self) -> None:
        """Nothing: our schema has none of the library's composite types to look for."""


class Factory(postgres.PostgresFactory):
    """Makes the recorder of the ledger from the connection string in `PUNTO_CONNINFO`."""

    PUNTO_CONNINFO = "PUNTO_CONNINFO"

    def __init__(self, env: Environment | EnvType | None) -> None:
        # Past the library's own factory, which asks for the five parts of an address.
        persistence.BaseInfrastructureFactory.__init__(self, env)
        conninfo = self.env.get(self.PUNTO_CONNINFO)
        if not conninfo:
            raise OSError(f"{self.PUNTO_CONNINFO} is not in the application's environment")
        # An application has one sequence of attempts under way, or takes a turn. A larger pool
        # would fill up with every connection that was lost, and stay so.
        self.datastore = LedgerDatastore(conninfo, max_overflow=1)

    def env_create_table(self) -> bool:
        """Never: migrations make the tables."""
        return False

    def application_recorder(self) -> "LedgerRecorder":
        """The recorder of the ledger."""
        from infrastructure.store.recorder import LedgerRecorder

        return LedgerRecorder(datastore=self.datastore, events_table_name=EVENTS_TABLE)
