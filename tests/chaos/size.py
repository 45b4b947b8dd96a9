"""How much is done to the store: little, or `PUNTO_CHAOS` times as much."""

import os

# Read once, at the import: the tests themselves run without any PUNTO_ variable.
TIMES = int(os.environ.get("PUNTO_CHAOS", "1"))

WRITER_KILLS = 5 * TIMES
SERVER_KILLS = 1 * TIMES
SERVICE_KILLS = max(3, 5 * TIMES // 2)
SSE_READERS = 10 * TIMES
COMMANDS_FOLLOWED = 30 * TIMES
NOISE_SECONDS = 3 * TIMES
BACKEND_KILLS = 10 * TIMES
EVENTS_READ = 5_000 * TIMES
SEQUENCES = 10 if TIMES == 1 else 500 * TIMES
SEQUENCES_A_LEDGER = 50
EMBEDDED_KILLS = 1 * TIMES
EVENTS_PUBLISHED = 15_000 * TIMES
FEED_KILLS = max(2, TIMES // 2)
NATS_KILLS = max(1, TIMES // 4)
COMMANDS_REFUSED_A_WHILE = 30 * TIMES
COMMANDS_WHILE_FULL = 60 * TIMES
COMMANDS_AT_ONCE = 5 * TIMES
DISKS_FILLED = 1 + TIMES // 4
SECONDS_AWAY = min(2 + TIMES, 20)

SECONDS_MAX = 60 * TIMES
"""How long anything may take before it counts as one that hangs."""
