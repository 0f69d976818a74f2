"""Events in PostgreSQL, with asyncpg: a pool of connections, prepared statements, one transaction for each event."""

import time

import asyncpg
import orjson

from journey import applied

SCHEMA = """
CREATE TABLE IF NOT EXISTS driver (driver_id text PRIMARY KEY, state text NOT NULL) WITH (fillfactor = 70);
CREATE TABLE IF NOT EXISTS event (
    id int8 GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    driver_id text NOT NULL,
    event_id text NOT NULL,
    name text NOT NULL,
    session_id text,
    charger_id text,
    source text,
    app_state text,
    occurred_at_ms int8 NOT NULL,
    received_at_ms int8 NOT NULL,
    metadata text,
    transition text NOT NULL,
    UNIQUE (driver_id, event_id)
);
"""
# The two workers start at the same time. This lock prevents that both create the tables.
SCHEMA_LOCK = 7_000_001
CONNECTIONS = 16


class Store:
    @classmethod
    async def open(cls, url):
        store = cls()
        store.pool = await asyncpg.create_pool(url, min_size=CONNECTIONS, max_size=CONNECTIONS)
        async with store.pool.acquire() as connection, connection.transaction():
            await connection.execute("SELECT pg_advisory_xact_lock($1)", SCHEMA_LOCK)
            await connection.execute(SCHEMA)
        return store

    async def append(self, event, driver):
        """Returns None if another event is already stored under the event's id."""
        async with self.pool.acquire() as connection, connection.transaction():
            # FOR UPDATE locks the driver's row, so that the driver's events take turns.
            state = await connection.fetchval("SELECT state FROM driver WHERE driver_id = $1 FOR UPDATE", driver)
            if state is None:
                state = await connection.fetchval(
                    "INSERT INTO driver VALUES ($1, 'IDLE') ON CONFLICT (driver_id) DO UPDATE SET state = driver.state "
                    "RETURNING state", driver)
            after, transition = applied(state, event)
            occurred_at_ms = int(event.occurred_at.timestamp() * 1000)
            added = await connection.fetchval(
                "INSERT INTO event (driver_id, event_id, name, session_id, charger_id, source, app_state, "
                "occurred_at_ms, received_at_ms, metadata, transition) "
                "VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) ON CONFLICT DO NOTHING RETURNING id",
                driver, event.event_id, event.event, event.session_id, event.charger_id, event.source, event.app_state,
                occurred_at_ms, time.time_ns() // 1_000_000,
                orjson.dumps(event.metadata).decode() if event.metadata else None, transition)
            if added is None:
                stored = await connection.fetchrow(
                    "SELECT name, occurred_at_ms, transition FROM event WHERE driver_id = $1 AND event_id = $2",
                    driver, event.event_id)
                same = (stored["name"], stored["occurred_at_ms"]) == (event.event, occurred_at_ms)
                return ("already_processed", state, stored["transition"]) if same else None
            if after:
                await connection.execute("UPDATE driver SET state = $2 WHERE driver_id = $1", driver, after)
            return "ok", after or state, transition

    async def close(self):
        await self.pool.close()
