-- Deletions of drivers that take more than one transaction. The first one removes the account and everything that reaches
-- the driver, and renames the driver; the rows that may be many are rewritten in pieces.
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
