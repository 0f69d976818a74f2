-- Consent to tell Apple how a purchase was used, and Apple's requests for that (CONSUMPTION_REQUEST).

-- A driver's last answer. No row: never asked, so not given.
CREATE TABLE consumption_consent (
    driver         INTEGER PRIMARY KEY REFERENCES driver (id),
    is_given       INTEGER NOT NULL CHECK (is_given IN (0, 1)),
    changed_at_ms  INTEGER NOT NULL
) STRICT;

-- Each request, and its outcome. Deleted after as many days as notifications.
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
