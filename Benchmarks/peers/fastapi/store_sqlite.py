"""Events in SQLite. SQLite is called on the event loop, because a commit is faster than a switch to another thread and
back."""

import fcntl
import sqlite3
import time

import orjson

from journey import applied

SCHEMA = """
PRAGMA journal_mode = WAL;
CREATE TABLE IF NOT EXISTS driver (driver_id TEXT PRIMARY KEY, state TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS event (
    id INTEGER PRIMARY KEY,
    driver_id TEXT NOT NULL,
    event_id TEXT NOT NULL,
    name TEXT NOT NULL,
    session_id TEXT,
    charger_id TEXT,
    source TEXT,
    app_state TEXT,
    occurred_at_ms INTEGER NOT NULL,
    received_at_ms INTEGER NOT NULL,
    metadata TEXT,
    transition TEXT NOT NULL,
    UNIQUE (driver_id, event_id)
);
"""


class Store:
    def __init__(self, path):
        self.database = sqlite3.connect(path, timeout=10, isolation_level=None)
        # The two worker processes lock a file to take turns. SQLite's own lock is slower, because SQLite sleeps between
        # attempts. Without the file lock, SQLite fails if both processes switch a new database to WAL mode.
        self.turn = open(f"{path}.turn", "w")
        fcntl.flock(self.turn, fcntl.LOCK_EX)
        self.database.executescript(SCHEMA)
        fcntl.flock(self.turn, fcntl.LOCK_UN)
        self.database.execute("PRAGMA synchronous = FULL")
        self.database.execute("PRAGMA cache_size = -32768")

    async def append(self, event, driver):
        """Returns None if another event is already stored under the event's id."""
        fcntl.flock(self.turn, fcntl.LOCK_EX)
        try:
            return self.append_alone(event, driver)
        finally:
            fcntl.flock(self.turn, fcntl.LOCK_UN)

    def append_alone(self, event, driver):
        run = self.database.execute
        run("BEGIN IMMEDIATE")
        try:
            row = run("SELECT state FROM driver WHERE driver_id = ?", (driver,)).fetchone()
            state = row[0] if row else "IDLE"
            after, transition = applied(state, event)
            occurred_at_ms = int(event.occurred_at.timestamp() * 1000)
            added = run(
                "INSERT INTO event (driver_id, event_id, name, session_id, charger_id, source, app_state, "
                "occurred_at_ms, received_at_ms, metadata, transition) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) "
                "ON CONFLICT DO NOTHING",
                (driver, event.event_id, event.event, event.session_id, event.charger_id, event.source,
                 event.app_state, occurred_at_ms, time.time_ns() // 1_000_000,
                 orjson.dumps(event.metadata).decode() if event.metadata else None, transition)).rowcount
            if added == 0:
                stored = run(
                    "SELECT name, occurred_at_ms, transition FROM event WHERE driver_id = ? AND event_id = ?",
                    (driver, event.event_id)).fetchone()
                run("COMMIT")
                same = stored[:2] == (event.event, occurred_at_ms)
                return ("already_processed", state, stored[2]) if same else None
            if after:
                run(
                    "INSERT INTO driver VALUES (?, ?) ON CONFLICT (driver_id) DO UPDATE SET state = excluded.state",
                    (driver, after))
            run("COMMIT")
            return "ok", after or state, transition
        except BaseException:
            if self.database.in_transaction:
                run("ROLLBACK")
            raise

    async def close(self):
        self.database.close()
