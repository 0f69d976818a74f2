-- Events, the journeys that they make, and what both refer to.
--
-- Conventions
--   *_at_ms and *_deadline_ms are milliseconds since 1970-01-01T00:00:00Z.
--   A text that repeats from row to row is stored once, in a table of its own, and referred to by a small integer:
--   at ten million events each byte of an event row is 10 MB.
--   Foreign keys guard what would orphan an event: its driver, session, kind and settings. Columns that name a place
--   or repeat a journey have none: SQLite looks each of them up for every event, which was a tenth of its cost.
--   Codes (state, transition, reason) are listed in event_timeline below, and in Sources/SQLiteStore/Codes.swift.
--
-- The event table is also the outbox. Rows are only ever added, by one writer, and AUTOINCREMENT never gives a
-- number twice: ids ascend in the order of commits, and no id appears later below another. A consumer keeps the
-- last id that it has dealt with and reads `WHERE id > ?`. A late event may change verdict and journey of rows
-- behind a cursor; their ids stay.

-- A driver is made at the first event that is stored, and carries the head of the fold: the journey after the last
-- event in the contract's order. An event that comes after the head reads and writes this row and no other of the
-- driver's events.
CREATE TABLE driver (
    id                      INTEGER PRIMARY KEY,
    driver_id               TEXT    NOT NULL UNIQUE,
    created_at_ms           INTEGER NOT NULL,
    -- The last correction of the phone's clock that was not zero; NULL: there was none.
    last_correction_ms      INTEGER,
    -- Last in the order, not last to arrive; NULL while only sessions are registered.
    head_event              INTEGER,
    head_corrected_at_ms    INTEGER,
    state                   INTEGER NOT NULL DEFAULT 0,
    session                 INTEGER,
    target_charger          INTEGER,
    next_target_charger     INTEGER,
    grace_deadline_ms       INTEGER,
    hard_deadline_ms        INTEGER,
    next_deadline_ms        INTEGER AS (
        coalesce(min(grace_deadline_ms, hard_deadline_ms), grace_deadline_ms, hard_deadline_ms)) VIRTUAL
) STRICT;

-- What is due: WHERE next_deadline_ms < ? ORDER BY next_deadline_ms.
CREATE INDEX driver_by_next_deadline ON driver (next_deadline_ms) WHERE next_deadline_ms IS NOT NULL;

-- A session_id is one driver's: the first that opened or registered it.
CREATE TABLE session (
    id                INTEGER PRIMARY KEY,
    session_id        TEXT    NOT NULL UNIQUE,
    driver            INTEGER NOT NULL REFERENCES driver (id),
    opened_at_ms      INTEGER NOT NULL,
    -- NULL: opened by its first event, and never registered.
    registered_at_ms  INTEGER,
    charger           INTEGER REFERENCES place (id),
    merchant          INTEGER REFERENCES place (id)
) STRICT;

-- Chargers and merchants, by the ids that clients give them.
CREATE TABLE place (
    id        INTEGER PRIMARY KEY,
    place_id  TEXT NOT NULL UNIQUE
) STRICT;

-- The settings in force when an event was stored. The two durations are the fold's; `settings` is the body of
-- GET /native/config under this version.
CREATE TABLE settings_version (
    id                    INTEGER PRIMARY KEY,
    version               TEXT    NOT NULL UNIQUE,
    grace_period_seconds  INTEGER NOT NULL,
    hard_timeout_seconds  INTEGER NOT NULL,
    settings              TEXT    NOT NULL,
    first_used_at_ms      INTEGER NOT NULL
) STRICT;

-- The members of an event that take few values, in the combinations that came.
CREATE TABLE event_kind (
    id              INTEGER PRIMARY KEY,
    -- Canonical; exitedChargerAnchorZone is departed or anchor lost by has_session.
    name            TEXT    NOT NULL,
    has_session     INTEGER NOT NULL CHECK (has_session IN (0, 1)),
    -- As the client spelled it.
    spelling        TEXT    NOT NULL,
    schema_version  TEXT    NOT NULL,
    source          TEXT    NOT NULL,
    app_state       TEXT,
    -- Function of name and has_session, for the order.
    lifecycle_rank  INTEGER NOT NULL,
    -- 0 a client, 1 the server itself; for the order.
    origin          INTEGER NOT NULL CHECK (origin IN (0, 1))
) STRICT;

-- NULLs are distinct to this index; the one writer looks with IS before it inserts.
CREATE UNIQUE INDEX event_kind_by_members
    ON event_kind (name, has_session, spelling, schema_version, source, origin, app_state);

CREATE TABLE event (
    id                         INTEGER PRIMARY KEY AUTOINCREMENT,
    driver                     INTEGER NOT NULL REFERENCES driver (id),
    idempotency_key            TEXT    NOT NULL,
    -- NULL: the same as idempotency_key, as it is with most clients.
    event_id                   TEXT,
    -- SHA-256 of the canonical form: tells a repeat from a reused key.
    digest                     BLOB    NOT NULL CHECK (length(digest) = 32),
    kind                       INTEGER NOT NULL REFERENCES event_kind (id),
    session                    INTEGER REFERENCES session (id),
    charger                    INTEGER,
    merchant                   INTEGER,
    settings_version           INTEGER NOT NULL REFERENCES settings_version (id),
    -- To the letter, as sent.
    occurred_at                TEXT    NOT NULL,
    occurred_at_ms             INTEGER NOT NULL,
    -- occurred_at by the server's clock: the first key of the order.
    corrected_at_ms            INTEGER NOT NULL,
    -- Receive time minus send time; 0 when the send time is unknown.
    skew_ms                    INTEGER NOT NULL,
    sent_at_ms                 INTEGER,
    received_at_ms             INTEGER NOT NULL,
    sequence                   INTEGER,
    -- A JSON object.
    metadata                   TEXT,
    -- The verdict on this event at its place in the order. A late event may change it, and what follows it here.
    transition                 INTEGER NOT NULL,
    reason                     INTEGER,
    implies_reset              INTEGER NOT NULL,
    -- The journey after this event: where the fold starts again when an event arrives late.
    after_state                INTEGER NOT NULL,
    after_session              INTEGER,
    after_target_charger       INTEGER,
    after_next_target_charger  INTEGER,
    after_grace_deadline_ms    INTEGER,
    after_hard_deadline_ms     INTEGER
) STRICT;

-- The truth about what is stored already.
CREATE UNIQUE INDEX event_by_key ON event (driver, idempotency_key);

-- The contract's order, down to the millisecond. Within one the few events are sorted when they are read, which is
-- when one arrives late: the other keys in here would double an index that every insert pays for.
CREATE INDEX event_by_time ON event (driver, corrected_at_ms);

-- For people: a driver's events with the codes spelled out, to be ordered by id (as stored) or by corrected_at_ms.
CREATE VIEW event_timeline AS
SELECT
    event.id,
    driver.driver_id,
    event_kind.name,
    session.session_id,
    event.occurred_at,
    event.corrected_at_ms,
    event.sequence,
    event_kind.source,
    CASE event.transition WHEN 0 THEN 'none' WHEN 1 THEN 'applied' WHEN 2 THEN 'rejected' END AS transition,
    CASE event.reason
        WHEN 0 THEN 'not_anchored' WHEN 1 THEN 'not_at_merchant' WHEN 2 THEN 'must_depart_first'
        WHEN 3 THEN 'no_such_transition' END AS reason,
    event.implies_reset,
    CASE event.after_state
        WHEN 0 THEN 'IDLE' WHEN 1 THEN 'NEAR_CHARGER' WHEN 2 THEN 'ANCHORED' WHEN 3 THEN 'SESSION_ACTIVE'
        WHEN 4 THEN 'IN_TRANSIT' WHEN 5 THEN 'AT_MERCHANT' WHEN 6 THEN 'SESSION_ENDED' END AS state_after
FROM event
JOIN driver ON driver.id = event.driver
JOIN event_kind ON event_kind.id = event.kind
LEFT JOIN session ON session.id = event.session;

-- One row that is written to find out whether the disk takes writes.
CREATE TABLE write_probe (
    id             INTEGER PRIMARY KEY CHECK (id = 1),
    written_count  INTEGER NOT NULL
) STRICT;

INSERT INTO write_probe (id, written_count) VALUES (1, 0);
