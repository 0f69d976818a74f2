-- Who follows the event table from outside the database, and how far each has come. See docs/decisions/outbox-is-the-event-table.md.

CREATE TABLE feed_consumer (
    name         TEXT    PRIMARY KEY,
    -- The last event that was dealt with. No foreign key: retention may delete the event.
    last_event   INTEGER NOT NULL,
    -- Of all up to there, those that were given up, or deleted before they were read.
    lost_count   INTEGER NOT NULL,
    moved_at_ms  INTEGER NOT NULL
) STRICT;
