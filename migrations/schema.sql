-- What all migrations together make: for reading, and for the test that compares it with a fresh database.
-- Made by SQLite; see CONTRIBUTING.md, "A migration".

CREATE TABLE schema_migration (
    number         INTEGER PRIMARY KEY,
    name           TEXT    NOT NULL,
    sha256         TEXT    NOT NULL,
    applied_at_ms  INTEGER NOT NULL
) STRICT;

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
, recent_changes BLOB, floor_at_ms INTEGER, clock_memory BLOB, ended_by INTEGER, previous_session INTEGER, rules INTEGER NOT NULL DEFAULT 1, chain BLOB) STRICT;

CREATE INDEX driver_by_next_deadline ON driver (next_deadline_ms) WHERE next_deadline_ms IS NOT NULL;

CREATE TABLE session (
    id                INTEGER PRIMARY KEY,
    session_id        TEXT    NOT NULL UNIQUE,
    driver            INTEGER NOT NULL REFERENCES driver (id),
    opened_at_ms      INTEGER NOT NULL,
    -- NULL: opened by its first event, and never registered.
    registered_at_ms  INTEGER,
    charger           INTEGER REFERENCES place (id),
    merchant          INTEGER REFERENCES place (id)
, registered_charger TEXT, registered_merchant TEXT) STRICT;

CREATE TABLE place (
    id        INTEGER PRIMARY KEY,
    place_id  TEXT NOT NULL UNIQUE
, is_charger INTEGER CHECK (is_charger IN (0, 1))) STRICT;

CREATE TABLE settings_version (
    id                    INTEGER PRIMARY KEY,
    version               TEXT    NOT NULL UNIQUE,
    grace_period_seconds  INTEGER NOT NULL,
    hard_timeout_seconds  INTEGER NOT NULL,
    settings              TEXT    NOT NULL,
    first_used_at_ms      INTEGER NOT NULL
) STRICT;

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
, sender INTEGER NOT NULL DEFAULT 0 CHECK (sender IN (0, 1, 2))) STRICT;

CREATE TABLE write_probe (
    id             INTEGER PRIMARY KEY CHECK (id = 1),
    written_count  INTEGER NOT NULL
) STRICT;

CREATE INDEX session_by_driver ON session (driver);

CREATE TABLE account (
    driver         INTEGER PRIMARY KEY REFERENCES driver (id),
    name           TEXT,
    email          TEXT,
    role           TEXT    NOT NULL,
    created_at_ms  INTEGER NOT NULL
) STRICT;

CREATE TABLE apple_identity (
    -- Apple's `sub`.
    subject           TEXT    PRIMARY KEY,
    driver            INTEGER NOT NULL UNIQUE REFERENCES driver (id),
    -- The app of the first sign-in.
    client_id         TEXT    NOT NULL,
    -- As the last token said, when it was verified.
    email             TEXT,
    is_private_email  INTEGER NOT NULL CHECK (is_private_email IN (0, 1)),
    -- NULL: Apple has not said.
    forwards_email    INTEGER CHECK (forwards_email IN (0, 1)),
    linked_at_ms      INTEGER NOT NULL
) STRICT;

CREATE TABLE apple_refresh_token (
    driver                INTEGER NOT NULL REFERENCES driver (id),
    client_id             TEXT    NOT NULL,
    sealed_refresh_token  BLOB    NOT NULL,
    PRIMARY KEY (driver, client_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE phone_identity (
    -- E.164.
    phone         TEXT    PRIMARY KEY,
    driver        INTEGER NOT NULL UNIQUE REFERENCES driver (id),
    linked_at_ms  INTEGER NOT NULL
) STRICT;

CREATE TABLE sign_in_session (
    id               INTEGER PRIMARY KEY,
    sid              TEXT    NOT NULL UNIQUE,
    driver           INTEGER NOT NULL REFERENCES driver (id),
    kind             TEXT    NOT NULL CHECK (kind IN ('pair', 'legacy')),
    method           TEXT    NOT NULL CHECK (method IN ('apple', 'otp')),
    client_name      TEXT,
    created_at_ms    INTEGER NOT NULL,
    last_used_at_ms  INTEGER NOT NULL,
    -- When nothing that was given out for it can be used or renewed any more.
    expires_at_ms    INTEGER NOT NULL
) STRICT;

CREATE INDEX sign_in_session_by_driver ON sign_in_session (driver);

CREATE INDEX sign_in_session_by_expiry ON sign_in_session (expires_at_ms);

CREATE TABLE refresh_token (
    digest         BLOB    PRIMARY KEY CHECK (length(digest) = 32),
    session        INTEGER NOT NULL REFERENCES sign_in_session (id),
    issued_at_ms   INTEGER NOT NULL,
    expires_at_ms  INTEGER NOT NULL,
    -- When it was first presented.
    spent_at_ms    INTEGER
) STRICT, WITHOUT ROWID;

CREATE INDEX refresh_token_by_session ON refresh_token (session, expires_at_ms);

CREATE TABLE apple_nonce (
    digest         BLOB    PRIMARY KEY CHECK (length(digest) = 32),
    expires_at_ms  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX apple_nonce_by_expiry ON apple_nonce (expires_at_ms);

CREATE TABLE apple_notice (
    jti_digest   BLOB    PRIMARY KEY CHECK (length(jti_digest) = 32),
    taken_at_ms  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE apple_revocation (
    id                    INTEGER PRIMARY KEY AUTOINCREMENT,
    client_id             TEXT    NOT NULL,
    sealed_refresh_token  BLOB    NOT NULL,
    subject_digest        BLOB    NOT NULL CHECK (length(subject_digest) = 32),
    attempt_count         INTEGER NOT NULL DEFAULT 0,
    next_attempt_at_ms    INTEGER NOT NULL,
    created_at_ms         INTEGER NOT NULL
) STRICT;

CREATE INDEX apple_revocation_by_next_attempt ON apple_revocation (next_attempt_at_ms);

CREATE TABLE one_time_code (
    phone_digest   BLOB    PRIMARY KEY CHECK (length(phone_digest) = 32),
    code_digest    BLOB    NOT NULL CHECK (length(code_digest) = 32),
    issued_at_ms   INTEGER NOT NULL,
    expires_at_ms  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX one_time_code_by_expiry ON one_time_code (expires_at_ms);

CREATE TABLE one_time_code_guess (
    id            INTEGER PRIMARY KEY,
    phone_digest  BLOB    NOT NULL CHECK (length(phone_digest) = 32),
    at_ms         INTEGER NOT NULL
, is_own INTEGER CHECK (is_own IN (0, 1)), site_digest BLOB CHECK (length(site_digest) = 32)) STRICT;

CREATE INDEX one_time_code_guess_by_phone ON one_time_code_guess (phone_digest, at_ms);

CREATE INDEX one_time_code_guess_by_time ON one_time_code_guess (at_ms);

CREATE TABLE one_time_code_send (
    id              INTEGER PRIMARY KEY,
    phone_digest    BLOB    NOT NULL CHECK (length(phone_digest) = 32),
    address_digest  BLOB    NOT NULL CHECK (length(address_digest) = 32),
    at_ms           INTEGER NOT NULL
, network_digest BLOB CHECK (length(network_digest) = 32), site_digest BLOB CHECK (length(site_digest) = 32), prefix_digest BLOB CHECK (length(prefix_digest) = 32), is_known INTEGER CHECK (is_known IN (0, 1)), is_sent INTEGER CHECK (is_sent IN (0, 1))) STRICT;

CREATE INDEX one_time_code_send_by_phone ON one_time_code_send (phone_digest, at_ms);

CREATE INDEX one_time_code_send_by_address ON one_time_code_send (address_digest, at_ms);

CREATE INDEX one_time_code_send_by_time ON one_time_code_send (at_ms);

CREATE TABLE device (
    id             INTEGER PRIMARY KEY,
    push_token     TEXT    NOT NULL UNIQUE,
    driver         INTEGER NOT NULL REFERENCES driver (id),
    -- NULL: put by a token of another service.
    session        INTEGER REFERENCES sign_in_session (id),
    platform       TEXT    NOT NULL,
    environment    TEXT    NOT NULL,
    app_version    TEXT,
    updated_at_ms  INTEGER NOT NULL
, locale TEXT, notifications TEXT, live_activity_token TEXT, woken_at_ms INTEGER) STRICT;

CREATE INDEX device_by_driver ON device (driver);

CREATE INDEX device_by_session ON device (session) WHERE session IS NOT NULL;

CREATE TABLE erased_driver (
    driver_digest  BLOB    PRIMARY KEY CHECK (length(driver_digest) = 32),
    erased_at_ms   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE revocation (
    id     INTEGER PRIMARY KEY AUTOINCREMENT,
    sid    TEXT,
    at_ms  INTEGER NOT NULL
) STRICT;

CREATE TABLE audit (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    at_ms       INTEGER NOT NULL,
    action      TEXT    NOT NULL,
    outcome     TEXT    NOT NULL,
    reason      TEXT,
    -- NULL: nobody was recognised.
    driver      INTEGER REFERENCES driver (id),
    sid         TEXT,
    -- These two are NULL once the driver is deleted, and so is sid.
    address     TEXT,
    request_id  TEXT
, phone_digest BLOB) STRICT;

CREATE INDEX audit_by_driver ON audit (driver, id) WHERE driver IS NOT NULL;

CREATE INDEX audit_of_nobody ON audit (at_ms) WHERE driver IS NULL AND action <> 'erased';

CREATE INDEX audit_of_renewals ON audit (at_ms) WHERE action = 'refresh' AND outcome = 'done';

CREATE INDEX audit_by_receipt ON audit (reason) WHERE action = 'erased';

CREATE TABLE feed_consumer (
    name         TEXT    PRIMARY KEY,
    -- The last event that was dealt with. No foreign key: retention may delete the event.
    last_event   INTEGER NOT NULL,
    -- Of all up to there, those that were given up, or deleted before they were read.
    lost_count   INTEGER NOT NULL,
    moved_at_ms  INTEGER NOT NULL
) STRICT;

CREATE TABLE settings_change (
    id        INTEGER PRIMARY KEY,
    at_ms     INTEGER NOT NULL,
    version   TEXT    NOT NULL,
    -- The body of GET /native/config under this version.
    settings  TEXT    NOT NULL
, changed_by TEXT, reason TEXT, rules_version TEXT, rules TEXT) STRICT;

CREATE TABLE journey_base (
    driver               INTEGER PRIMARY KEY REFERENCES driver (id),
    state                INTEGER NOT NULL,
    session              INTEGER,
    target_charger       INTEGER,
    next_target_charger  INTEGER,
    grace_deadline_ms    INTEGER,
    hard_deadline_ms     INTEGER
, ended_by INTEGER, previous_session INTEGER) STRICT;

CREATE TABLE last_backup (
    id               INTEGER PRIMARY KEY CHECK (id = 1),
    completed_at_ms  INTEGER NOT NULL,
    -- Of the copy.
    bytes            INTEGER NOT NULL
) STRICT;

CREATE TABLE place_use (
    driver  INTEGER NOT NULL REFERENCES driver (id),
    place   INTEGER NOT NULL REFERENCES place (id),
    PRIMARY KEY (driver, place)
) STRICT, WITHOUT ROWID;

CREATE INDEX place_use_by_place ON place_use (place);

CREATE TABLE event_kind_use (
    driver  INTEGER NOT NULL REFERENCES driver (id),
    kind    INTEGER NOT NULL REFERENCES event_kind (id),
    PRIMARY KEY (driver, kind)
) STRICT, WITHOUT ROWID;

CREATE INDEX event_kind_use_by_kind ON event_kind_use (kind);

CREATE INDEX audit_by_phone ON audit (phone_digest) WHERE phone_digest IS NOT NULL;

CREATE TABLE operation_count (
    -- 60, 900 or 7200.
    step_seconds  INTEGER NOT NULL,
    begins_at_ms  INTEGER NOT NULL,
    -- event.<outcome>, status.<code>, duration.<upper bound in microseconds>
    series        TEXT    NOT NULL,
    count         INTEGER NOT NULL,
    PRIMARY KEY (step_seconds, begins_at_ms, series)
) STRICT, WITHOUT ROWID;

CREATE INDEX session_by_opening ON session (opened_at_ms);

CREATE TABLE settings_reload (
    id        INTEGER PRIMARY KEY,
    at_ms     INTEGER NOT NULL,
    -- INSTANCE_NAME of the server.
    instance  TEXT    NOT NULL,
    -- 0: nothing was changed. 1: what could be changed was.
    is_good   INTEGER NOT NULL CHECK (is_good IN (0, 1)),
    -- A sentence on each line.
    details   TEXT    NOT NULL
) STRICT;

CREATE TABLE instance (
    name              TEXT    PRIMARY KEY,
    version           TEXT    NOT NULL,
    settings_version  TEXT    NOT NULL,
    -- A JSON object of what servers on one file should agree on: the value by name, of a secret a keyed hash.
    settings          TEXT    NOT NULL,
    started_at_ms     INTEGER NOT NULL,
    heartbeat_at_ms   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX audit_of_requests ON audit (driver, id) WHERE driver IS NOT NULL
    AND (action IN ('device_added', 'device_removed', 'profile_changed', 'exported')
        OR outcome = 'refused' AND action IN ('otp_send', 'sign_in_otp'));

CREATE INDEX one_time_code_send_by_network ON one_time_code_send (network_digest, at_ms);

CREATE INDEX one_time_code_send_by_site ON one_time_code_send (site_digest, at_ms);

CREATE INDEX one_time_code_send_by_prefix ON one_time_code_send (prefix_digest, at_ms) WHERE is_sent AND NOT is_known;

CREATE INDEX one_time_code_send_to_unknown ON one_time_code_send (at_ms) WHERE is_sent AND NOT is_known;

CREATE INDEX one_time_code_send_sent ON one_time_code_send (at_ms) WHERE is_sent IS NOT 0;

CREATE TABLE asked_code (
    phone_digest    BLOB    NOT NULL CHECK (length(phone_digest) = 32),
    -- Of who asked for it.
    address_digest  BLOB    NOT NULL CHECK (length(address_digest) = 32),
    code_digest     BLOB    NOT NULL CHECK (length(code_digest) = 32),
    issued_at_ms    INTEGER NOT NULL,
    expires_at_ms   INTEGER NOT NULL,
    -- Wrong guesses from that address.
    wrong_count     INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (phone_digest, address_digest)
) STRICT, WITHOUT ROWID;

CREATE INDEX asked_code_by_expiry ON asked_code (expires_at_ms);

CREATE INDEX one_time_code_guess_by_site ON one_time_code_guess (site_digest, at_ms) WHERE NOT is_own;

CREATE TABLE app_account_token (
    driver  INTEGER PRIMARY KEY REFERENCES driver (id),
    token   TEXT    NOT NULL UNIQUE
) STRICT;

CREATE TABLE purchase (
    id                       INTEGER PRIMARY KEY,
    -- Apple's word: Production, Sandbox, Xcode, LocalTesting. Ids are unique within it.
    environment              TEXT    NOT NULL,
    original_transaction_id  TEXT    NOT NULL,
    -- NULL: nobody has shown it yet, or its driver was deleted.
    driver                   INTEGER REFERENCES driver (id),
    -- An operator gave it to this driver, whatever account token Apple signed. NULL after a deletion.
    moved_at_ms              INTEGER,
    UNIQUE (environment, original_transaction_id)
) STRICT;

CREATE INDEX purchase_by_driver ON purchase (driver) WHERE driver IS NOT NULL;

CREATE TABLE purchase_signer (
    id             INTEGER PRIMARY KEY,
    header         TEXT    NOT NULL UNIQUE,
    -- When Apple last said whether it revoked the certificates (OCSP).
    checked_at_ms  INTEGER,
    -- What was signed from then on is not believed.
    revoked_at_ms  INTEGER
) STRICT;

CREATE TABLE purchase_transaction (
    id                 INTEGER PRIMARY KEY,
    purchase           INTEGER NOT NULL REFERENCES purchase (id),
    environment        TEXT    NOT NULL,
    transaction_id     TEXT    NOT NULL,
    -- As in the payload, in lower case.
    account_token      TEXT,
    signed_at_ms       INTEGER NOT NULL,
    -- JSON. After a deletion of the driver: without what could lead to a person, and no longer as it was signed.
    payload            BLOB    NOT NULL,
    signer             INTEGER REFERENCES purchase_signer (id),
    signature          BLOB,
    UNIQUE (environment, transaction_id)
) STRICT;

CREATE INDEX purchase_transaction_by_purchase ON purchase_transaction (purchase);

CREATE TABLE purchase_renewal (
    purchase      INTEGER PRIMARY KEY REFERENCES purchase (id),
    signed_at_ms  INTEGER NOT NULL,
    payload       BLOB    NOT NULL,
    signer        INTEGER REFERENCES purchase_signer (id),
    signature     BLOB
) STRICT;

CREATE TABLE store_notification (
    -- Apple's notificationUUID, in lower case.
    uuid            TEXT    PRIMARY KEY,
    type            TEXT    NOT NULL,
    subtype         TEXT,
    environment     TEXT    NOT NULL,
    purchase        INTEGER REFERENCES purchase (id),
    signed_at_ms    INTEGER NOT NULL,
    received_at_ms  INTEGER NOT NULL,
    -- JSON, of a type that this release does not know; NULL for all others.
    payload         BLOB
, app_transaction_id TEXT) STRICT;

CREATE INDEX store_notification_by_arrival ON store_notification (received_at_ms);

CREATE INDEX store_notification_by_purchase ON store_notification (purchase) WHERE purchase IS NOT NULL;

CREATE TABLE refold (
    driver     INTEGER PRIMARY KEY REFERENCES driver (id),
    -- The late event that caused it. NULL: the rules of another release.
    cause      INTEGER,
    -- Fold.rulesVersion of the release that refolds.
    rules      INTEGER NOT NULL,
    -- The last refolded event in the order of the fold; the next transaction continues after its millisecond.
    last_event INTEGER NOT NULL,
    -- Events refolded so far.
    row_count  INTEGER NOT NULL
, correction INTEGER REFERENCES settings_correction (id)) STRICT;

CREATE TABLE erasure (
    driver         INTEGER PRIMARY KEY REFERENCES driver (id),
    -- Keyed hash of the driver's id: a second request to delete it waits for this one.
    driver_digest  BLOB    NOT NULL CHECK (length(driver_digest) = 32),
    -- What is rewritten now: audit, sessions, events, places, event_kinds; wal: nothing is left but the WAL.
    step           TEXT    NOT NULL,
    -- The last row of this step that is rewritten: its number; of events, corrected_at_ms. NULL: none.
    last           INTEGER,
    -- Events rewritten so far: the place of the next one in the order.
    event_count    INTEGER NOT NULL
) STRICT;

CREATE TABLE consumption_consent (
    driver         INTEGER PRIMARY KEY REFERENCES driver (id),
    is_given       INTEGER NOT NULL CHECK (is_given IN (0, 1)),
    changed_at_ms  INTEGER NOT NULL
) STRICT;

CREATE TABLE consumption_request (
    id                  INTEGER PRIMARY KEY,
    -- Apple's notificationUUID, in lower case.
    notification        TEXT    NOT NULL UNIQUE,
    purchase            INTEGER NOT NULL REFERENCES purchase (id),
    environment         TEXT    NOT NULL,
    bundle_id           TEXT    NOT NULL,
    transaction_id      TEXT    NOT NULL,
    -- When Apple signed the request: it takes an answer for twelve hours.
    requested_at_ms     INTEGER NOT NULL,
    attempt_count       INTEGER NOT NULL DEFAULT 0,
    -- NULL: there is an outcome.
    next_attempt_at_ms  INTEGER,
    -- answered, no_consent, too_late, rejected; NULL: not yet.
    outcome             TEXT,
    finished_at_ms      INTEGER
) STRICT;

CREATE INDEX consumption_request_due ON consumption_request (next_attempt_at_ms) WHERE next_attempt_at_ms IS NOT NULL;

CREATE UNIQUE INDEX event_kind_by_members
    ON event_kind (name, has_session, spelling, schema_version, source, origin, app_state, sender);

CREATE TABLE session_code (
    session         INTEGER PRIMARY KEY,
    driver          INTEGER NOT NULL REFERENCES driver (id),
    code_digest     BLOB    NOT NULL CHECK (length(code_digest) = 32),
    issued_at_ms    INTEGER NOT NULL,
    -- The hard deadline of the session when the code was issued.
    expires_at_ms   INTEGER NOT NULL,
    wrong_count     INTEGER NOT NULL DEFAULT 0,
    -- When the right code was first received; the time of the session's visitVerifiedByWeb.
    accepted_at_ms  INTEGER
) STRICT;

CREATE INDEX session_code_by_driver ON session_code (driver);

CREATE INDEX session_code_by_expiry ON session_code (expires_at_ms);

CREATE TABLE push_outbox (
    id                  INTEGER PRIMARY KEY AUTOINCREMENT,
    device              INTEGER NOT NULL REFERENCES device (id) ON DELETE CASCADE,
    driver              INTEGER NOT NULL REFERENCES driver (id) ON DELETE CASCADE,
    session             INTEGER REFERENCES session (id) ON DELETE CASCADE,
    -- session_active, at_merchant, grace_ending, session_expired, wake, activity_update, activity_end
    kind                TEXT    NOT NULL,
    state               INTEGER NOT NULL,
    ended_by            INTEGER,
    -- The deadline that the notification tells.
    deadline_ms         INTEGER,
    due_at_ms           INTEGER NOT NULL,
    expires_at_ms       INTEGER NOT NULL,
    attempt_count       INTEGER NOT NULL DEFAULT 0,
    next_attempt_at_ms  INTEGER NOT NULL
) STRICT;

CREATE INDEX push_outbox_due ON push_outbox (next_attempt_at_ms, id);

CREATE INDEX push_outbox_by_device ON push_outbox (device, id);

CREATE INDEX push_outbox_by_driver ON push_outbox (driver);

CREATE INDEX push_outbox_by_session ON push_outbox (session);

CREATE TABLE settings_correction (
    id              INTEGER PRIMARY KEY,
    at_ms           INTEGER NOT NULL,
    -- The receive times of the corrected events: since <= received_at_ms < until.
    since_ms        INTEGER NOT NULL,
    until_ms        INTEGER NOT NULL,
    -- The settings that the fold uses from now on. NULL: those stored with each event, as before any correction.
    settings        INTEGER REFERENCES settings_version (id),
    -- Only events stored with these settings are corrected. NULL: all.
    instead_of      INTEGER REFERENCES settings_version (id),
    changed_by      TEXT    NOT NULL,
    reason          TEXT    NOT NULL,
    -- NULL: not all drivers are refolded yet. The same order continues it.
    finished_at_ms  INTEGER
) STRICT;

CREATE TABLE corrected_journey (
    id      INTEGER PRIMARY KEY AUTOINCREMENT,
    driver  INTEGER NOT NULL REFERENCES driver (id)
) STRICT;

CREATE INDEX corrected_journey_by_driver ON corrected_journey (driver);

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

CREATE INDEX event_by_session ON event_row (session, corrected_at_ms) WHERE session IS NOT NULL;

CREATE INDEX event_by_closed_session ON event_row (closed_session) WHERE closed_session IS NOT NULL;

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

CREATE TABLE event_key (
    place  INTEGER PRIMARY KEY,
    number  INTEGER NOT NULL
) STRICT;

CREATE TABLE event_key_hash (
    id      INTEGER PRIMARY KEY CHECK (id = 1),
    secret  BLOB    NOT NULL CHECK (length(secret) = 16),
    bits    INTEGER NOT NULL CHECK (bits BETWEEN 1 AND 32)
) STRICT;

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

CREATE TABLE event_key_progress (
    id              INTEGER PRIMARY KEY CHECK (id = 1),
    -- `event_key` lists every event up to this number, and some of the later ones.
    listed_through  INTEGER NOT NULL
, moving_through INTEGER NOT NULL DEFAULT 0, moved_place INTEGER NOT NULL DEFAULT 0) STRICT;

CREATE TABLE event_key_early (
    number  INTEGER PRIMARY KEY
) STRICT;

CREATE TABLE notification_history (
    -- Apple's word: Production, Sandbox.
    environment  TEXT    NOT NULL,
    bundle_id    TEXT    NOT NULL,
    -- Every notification that Apple sent until then was received, or read from the history.
    read_to_ms   INTEGER NOT NULL,
    PRIMARY KEY (environment, bundle_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX store_notification_by_app_transaction ON store_notification (app_transaction_id)
WHERE app_transaction_id IS NOT NULL;

CREATE INDEX session_by_registered_charger ON session (registered_charger) WHERE registered_charger IS NOT NULL;

CREATE INDEX audit_of_refusals ON audit (driver, id) WHERE driver IS NOT NULL
    AND (action = 'sign_out_all' OR outcome = 'refused' AND action IN ('refresh', 'sign_in_apple'));
