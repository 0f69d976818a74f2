-- Rows of events in half the bytes: docs/decisions/lean-event-rows.md. The table `event_row` has what is stored. The view
-- `event` has every column of before under its name. INSERT, UPDATE and DELETE name the table, readers the view.
--
-- This script is for a database without events. One that has some is rebuilt in a new file, where this script runs on
-- empty tables; the rows are then copied.
CREATE TABLE event_number (
    has_event  INTEGER NOT NULL CHECK (NOT has_event),
    -- The highest number ever given: retention may have deleted the event.
    seq        INTEGER
) STRICT;
INSERT INTO event_number (has_event, seq)
SELECT EXISTS (SELECT 1 FROM event), (SELECT seq FROM sqlite_sequence WHERE name = 'event');

DROP VIEW event_timeline;
DROP TABLE event;

-- No foreign keys: SQLite would look each of them up for every event. `dwell check` proves what they would prove.
CREATE TABLE event_row (
    id                         INTEGER PRIMARY KEY AUTOINCREMENT,
    driver                     INTEGER NOT NULL,
    -- The driver's event before this one in the order (corrected_at_ms, id). NULL: this is the first.
    previous                   INTEGER,
    -- The nearest event before this one with a higher level: SQLiteStore/EventChain.swift. NULL: none.
    jump                       INTEGER,
    -- occurred_at by the server's clock: the first key of the order. Every *_offset_ms is a difference to it.
    corrected_at_ms            INTEGER NOT NULL,
    kind                       INTEGER NOT NULL,
    session                    INTEGER,
    charger                    INTEGER,
    sequence                   INTEGER,
    settings_version           INTEGER NOT NULL,
    -- The settings with which the fold uses the event. NULL: settings_version.
    fold_settings              INTEGER,
    received_offset_ms         INTEGER NOT NULL,
    -- The state in which the client says that it was before the event. NULL: it says nothing.
    previous_state             INTEGER,
    -- Of an event whose occurred_at has no fraction of a second: its place among those with its time and sequence, as
    -- the fold found it. NULL for all others, which come before them.
    second_place               INTEGER,
    -- The verdict on this event at its place in the order. A late event may change it, and what follows it here.
    transition                 INTEGER NOT NULL,
    reason                     INTEGER,
    -- A set of steps, a bit each: JourneyModel/ImpliedSteps.swift.
    implied                    INTEGER NOT NULL,
    -- The journey after this event: where the fold starts again when an event arrives late.
    after_state                INTEGER NOT NULL,
    after_session              INTEGER,
    after_target_charger       INTEGER,
    after_next_target_charger  INTEGER,
    after_grace_offset_ms      INTEGER,
    after_hard_offset_ms       INTEGER,
    after_ended_by             INTEGER,
    after_previous_session     INTEGER,
    -- The session in progress that this event closed by beginning another journey.
    closed_session             INTEGER,
    -- The idempotency key: a UUID in lower case is its 16 bytes, one in upper case is its 16 bytes and a zero, any
    -- other key is a text.
    key                        ANY     NOT NULL,
    -- First half of the SHA-256 of the canonical form: tells a repeat from a reused key.
    digest                     BLOB    NOT NULL CHECK (length(digest) = 16),
    -- NULL: the same as idempotency_key, as it is with most clients.
    event_id                   TEXT,
    occurred_offset_ms         INTEGER NOT NULL,
    -- As sent, to the letter. NULL: occurred_at_ms as 2026-01-31T08:00:00.000Z. Empty: as 2026-01-31T08:00:00Z.
    occurred_at_text           TEXT,
    -- Receive time minus send time; 0 when the send time is unknown.
    skew_ms                    INTEGER NOT NULL,
    sent_offset_ms             INTEGER,
    -- Of `timestamp` of an event that came with X-Sent-At; sent_at_ms is then the latter.
    timestamp_offset_ms        INTEGER,
    -- Which rule decided corrected_at_ms: SQLiteStore/Codes.swift. NULL: an event of the server.
    clock_rule                 INTEGER,
    merchant                   INTEGER,
    -- A JSON object.
    metadata                   TEXT,
    -- Members that the server does not use, as a JSON object.
    details                    TEXT
) STRICT;

INSERT INTO sqlite_sequence (name, seq) SELECT 'event_row', seq FROM event_number WHERE seq IS NOT NULL;
DROP TABLE event_number;

CREATE INDEX event_by_session ON event_row (session, corrected_at_ms) WHERE session IS NOT NULL;

CREATE INDEX event_by_closed_session ON event_row (closed_session) WHERE closed_session IS NOT NULL;

-- Not generated columns: SQLite would compute them for every row that is inserted or updated.
CREATE VIEW event AS
SELECT
    id, driver, previous, jump, corrected_at_ms, kind, session, charger, sequence, settings_version, fold_settings,
    received_offset_ms, previous_state, second_place, transition, reason, implied, after_state, after_session,
    after_target_charger, after_next_target_charger, after_grace_offset_ms, after_hard_offset_ms, after_ended_by,
    after_previous_session, closed_session, key, digest, event_id, occurred_offset_ms, occurred_at_text, skew_ms,
    sent_offset_ms, timestamp_offset_ms, clock_rule, merchant, metadata, details,
    CASE WHEN typeof(key) = 'blob' THEN iif(length(key) = 16,
        lower(hex(substr(key, 1, 4)) || '-' || hex(substr(key, 5, 2)) || '-' || hex(substr(key, 7, 2)) || '-'
            || hex(substr(key, 9, 2)) || '-' || hex(substr(key, 11, 6))),
        hex(substr(key, 1, 4)) || '-' || hex(substr(key, 5, 2)) || '-' || hex(substr(key, 7, 2)) || '-'
            || hex(substr(key, 9, 2)) || '-' || hex(substr(key, 11, 6))) ELSE key END AS idempotency_key,
    corrected_at_ms + received_offset_ms AS received_at_ms,
    corrected_at_ms + occurred_offset_ms AS occurred_at_ms,
    corrected_at_ms + sent_offset_ms AS sent_at_ms,
    corrected_at_ms + timestamp_offset_ms AS timestamp_ms,
    corrected_at_ms + after_grace_offset_ms AS after_grace_deadline_ms,
    corrected_at_ms + after_hard_offset_ms AS after_hard_deadline_ms,
    CASE
        WHEN occurred_at_text IS NULL THEN
            strftime('%Y-%m-%dT%H:%M:%fZ', (corrected_at_ms + occurred_offset_ms) / 1000.0, 'unixepoch')
        WHEN occurred_at_text = '' THEN
            strftime('%Y-%m-%dT%H:%M:%SZ', (corrected_at_ms + occurred_offset_ms) / 1000.0, 'unixepoch')
        ELSE occurred_at_text END AS occurred_at
FROM event_row;

-- The truth about what is stored already: a row per event, at a place of its driver that a keyed hash of its idempotency
-- key gives, or at one of the next places if another key has it. SQLiteStore/EventKeys.swift.
CREATE TABLE event_key (
    place  INTEGER PRIMARY KEY,
    event  INTEGER NOT NULL
) STRICT;

-- How the hashes are made. Nobody can choose keys with the same hash without the secret. Tests use few bits.
CREATE TABLE event_key_hash (
    id      INTEGER PRIMARY KEY CHECK (id = 1),
    secret  BLOB    NOT NULL CHECK (length(secret) = 16),
    bits    INTEGER NOT NULL CHECK (bits BETWEEN 1 AND 32)
) STRICT;

INSERT INTO event_key_hash (id, secret, bits) VALUES (1, randomblob(16), 24);

-- The driver's last event in the order, its time, and its jump, the jump of that, and so on: what an event after it
-- needs. NULL: no event. SQLiteStore/EventChain.swift.
ALTER TABLE driver ADD COLUMN chain BLOB;

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
    event.second_place,
    event_kind.source,
    CASE event_kind.sender WHEN 0 THEN 'app' WHEN 1 THEN 'unconfirmed_app' WHEN 2 THEN 'service' END AS sender,
    CASE event.transition WHEN 0 THEN 'none' WHEN 1 THEN 'applied' WHEN 2 THEN 'rejected' END AS transition,
    CASE event.reason
        WHEN 0 THEN 'not_anchored' WHEN 1 THEN 'not_at_merchant' WHEN 2 THEN 'must_depart_first'
        WHEN 3 THEN 'no_such_transition' WHEN 4 THEN 'unconfirmed' END AS reason,
    event.implied,
    CASE event.previous_state
        WHEN 0 THEN 'IDLE' WHEN 1 THEN 'NEAR_CHARGER' WHEN 2 THEN 'ANCHORED' WHEN 3 THEN 'SESSION_ACTIVE'
        WHEN 4 THEN 'IN_TRANSIT' WHEN 5 THEN 'AT_MERCHANT' WHEN 6 THEN 'SESSION_ENDED' END AS previous_state,
    CASE event.after_state
        WHEN 0 THEN 'IDLE' WHEN 1 THEN 'NEAR_CHARGER' WHEN 2 THEN 'ANCHORED' WHEN 3 THEN 'SESSION_ACTIVE'
        WHEN 4 THEN 'IN_TRANSIT' WHEN 5 THEN 'AT_MERCHANT' WHEN 6 THEN 'SESSION_ENDED' END AS state_after,
    CASE event.after_ended_by
        WHEN 0 THEN 'verified' WHEN 1 THEN 'grace' WHEN 2 THEN 'hard_timeout' WHEN 3 THEN 'requested' END AS ended_by
FROM event
JOIN driver ON driver.id = event.driver
JOIN event_kind ON event_kind.id = event.kind
LEFT JOIN session ON session.id = event.session;
