-- What a device is sent, and the outbox of notifications.

-- A BCP 47 tag; NULL: the default language.
ALTER TABLE device ADD COLUMN locale TEXT;
-- A JSON object of booleans; NULL: every alert.
ALTER TABLE device ADD COLUMN notifications TEXT;
-- The update token of the Live Activity that runs; NULL: none runs.
ALTER TABLE device ADD COLUMN live_activity_token TEXT;
-- When the last background push to the device was queued.
ALTER TABLE device ADD COLUMN woken_at_ms INTEGER;

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
