-- Drivers, their events and sessions on PostgreSQL. docs/decisions/postgresql.md says why the tables look like this.
--
-- lane: a hash of the text that a row is found by, 0 to 1023. A driver's id has the lane of the driver in its top bits.
-- The rows of one lane can later be kept together on one of several servers (Citus), and for that every unique key
-- contains the lane. The lane comes last in the keys: PostgreSQL takes lane and driver for independent, and would
-- believe that every index which begins with both finds one row.
--
-- Texts are compared by their bytes (COLLATE "C"), as the contract compares ids.

CREATE TABLE driver (
    lane                  int2   NOT NULL,
    id                    int8   NOT NULL,
    driver_id             text   COLLATE "C" NOT NULL,
    -- Raised by every transaction that changes the driver's events or sessions. A transaction that read another version
    -- than the one it finds changes nothing of this driver.
    version               int8   NOT NULL,
    -- The transaction that raised the version last: a random number. What belongs to it is written by joining on this.
    batch                 int8,
    last_seq              int8   NOT NULL,
    created_at_ms         int8   NOT NULL,
    -- The last correction of the phone's clock that was not zero; NULL: there was none.
    last_correction_ms    int8,
    clock_memory          bytea,
    -- Last in the order, not last to arrive; NULL while only sessions are registered.
    head_seq              int8,
    head_corrected_at_ms  int8,
    state                 int2   NOT NULL,
    session_id            text   COLLATE "C",
    target_charger        text   COLLATE "C",
    next_target_charger   text   COLLATE "C",
    grace_deadline_ms     int8,
    hard_deadline_ms      int8,
    next_deadline_ms      int8   GENERATED ALWAYS AS (least(grace_deadline_ms, hard_deadline_ms)) STORED,
    ended_by              int2,
    previous_session_id   text   COLLATE "C",
    recent_changes        bytea,
    floor_at_ms           int8,
    rules                 int8   NOT NULL,
    PRIMARY KEY (id, lane),
    UNIQUE (driver_id, lane)
) WITH (fillfactor = 70);

CREATE INDEX driver_by_next_deadline ON driver (next_deadline_ms, id) WHERE next_deadline_ms IS NOT NULL;

CREATE TABLE settings_version (
    version               text   COLLATE "C" PRIMARY KEY,
    grace_period_seconds  int8   NOT NULL,
    hard_timeout_seconds  int8   NOT NULL,
    settings              text   NOT NULL,
    first_used_at_ms      int8   NOT NULL
);

CREATE TABLE event (
    lane                       int2   NOT NULL,
    driver                     int8   NOT NULL,
    -- Counts the driver's events in the order of arrival, from 1.
    seq                        int8   NOT NULL,
    idempotency_key            text   COLLATE "C" NOT NULL,
    -- NULL: the same as idempotency_key, as it is with most clients.
    event_id                   text   COLLATE "C",
    -- SHA-256 of the canonical form: tells a repeat from a reused key.
    digest                     bytea  NOT NULL CHECK (length(digest) = 32),
    -- Canonical; exitedChargerAnchorZone is departed or anchor lost by whether session_id is NULL.
    name                       text   COLLATE "C" NOT NULL,
    -- As the client spelled it.
    spelling                   text   COLLATE "C" NOT NULL,
    schema_version             text   COLLATE "C" NOT NULL,
    source                     text   COLLATE "C" NOT NULL,
    app_state                  text   COLLATE "C",
    -- Function of name and session, for the order.
    lifecycle_rank             int2   NOT NULL,
    -- 0 a client, 1 the server itself; for the order.
    origin                     int2   NOT NULL CHECK (origin IN (0, 1)),
    -- 0 the app, 1 the app whose confirmations do not count, 2 a service.
    sender                     int2   NOT NULL CHECK (sender IN (0, 1, 2)),
    session_id                 text   COLLATE "C",
    charger                    text   COLLATE "C",
    merchant                   text   COLLATE "C",
    settings_version           text   COLLATE "C" NOT NULL,
    -- The settings that a correction put in place of settings_version for the fold; NULL: none.
    fold_settings              text   COLLATE "C",
    -- To the letter, as sent.
    occurred_at                text   NOT NULL,
    occurred_at_ms             int8   NOT NULL,
    -- occurred_at by the server's clock: the first key of the order.
    corrected_at_ms            int8   NOT NULL,
    -- Receive time minus send time; 0 when the send time is unknown.
    skew_ms                    int8   NOT NULL,
    clock_rule                 int2,
    sent_at_ms                 int8,
    -- Only where the client sent X-Sent-At together with a timestamp.
    timestamp_ms               int8,
    received_at_ms             int8   NOT NULL,
    sequence                   int8,
    -- The state before the event as the client reported it.
    previous_state             int2,
    -- A JSON object each. Not jsonb: the text is kept to the letter, and jsonb refuses an escaped NUL.
    metadata                   text,
    details                    text,
    -- The verdict on this event at its place in the order. A late event may change it, and what follows it here.
    transition                 int2   NOT NULL,
    reason                     int2,
    implied                    int2   NOT NULL,
    -- The journey after this event: where the fold starts again when an event arrives late.
    after_state                int2   NOT NULL,
    after_session_id           text   COLLATE "C",
    after_target_charger       text   COLLATE "C",
    after_next_target_charger  text   COLLATE "C",
    after_grace_deadline_ms    int8,
    after_hard_deadline_ms     int8,
    after_ended_by             int2,
    after_previous_session_id  text   COLLATE "C",
    -- The event's index among the events of its second; NULL for an event with a fraction of a second.
    second_place               int8,
    -- The session in progress that this event closed without ending it.
    closed_session_id          text   COLLATE "C",
    PRIMARY KEY (driver, seq, lane),
    UNIQUE (driver, idempotency_key, lane)
);

CREATE INDEX event_by_time ON event (driver, corrected_at_ms);

CREATE INDEX event_by_session ON event (driver, session_id, corrected_at_ms) WHERE session_id IS NOT NULL;

CREATE INDEX event_by_closed_session ON event (driver, closed_session_id) WHERE closed_session_id IS NOT NULL;

-- Rows lie in the order of arrival, so a few pages of this index find what is old.
CREATE INDEX event_by_receipt ON event USING brin (received_at_ms);

CREATE TABLE session (
    lane                 int2  NOT NULL,
    driver               int8  NOT NULL,
    session_id           text  COLLATE "C" NOT NULL,
    opened_at_ms         int8  NOT NULL,
    -- NULL: opened by its first event, and never registered.
    registered_at_ms     int8,
    registered_charger   text  COLLATE "C",
    registered_merchant  text  COLLATE "C",
    PRIMARY KEY (driver, session_id, lane)
);

CREATE INDEX session_by_opening ON session (driver, opened_at_ms DESC, session_id DESC);

-- Which driver a session_id belongs to, for all drivers. The lane is the session_id's own, not the driver's.
CREATE TABLE session_owner (
    lane           int2  NOT NULL,
    session_id     text  COLLATE "C" NOT NULL,
    owner_lane     int2  NOT NULL,
    owner          int8  NOT NULL,
    claimed_at_ms  int8  NOT NULL,
    PRIMARY KEY (session_id, lane)
);

-- The journey at a driver's floor, where the fold begins after retention has deleted the events before it.
CREATE TABLE journey_base (
    lane                 int2  NOT NULL,
    driver               int8  NOT NULL,
    state                int2  NOT NULL,
    session_id           text  COLLATE "C",
    target_charger       text  COLLATE "C",
    next_target_charger  text  COLLATE "C",
    grace_deadline_ms    int8,
    hard_deadline_ms     int8,
    ended_by             int2,
    previous_session_id  text  COLLATE "C",
    PRIMARY KEY (driver, lane)
);
