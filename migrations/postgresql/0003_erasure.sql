-- Deletions of drivers that take more than one transaction. The first one removes the account and everything that reaches
-- the driver, and renames the driver; the rows that may be many are rewritten in pieces.

CREATE TABLE erasure (
    driver         int8   PRIMARY KEY,
    -- Keyed hash of the driver's id: a second request to delete it waits for this one.
    driver_digest  bytea  NOT NULL CHECK (length(driver_digest) = 32),
    -- What is rewritten now: audit, events, sessions.
    step           text   COLLATE "C" NOT NULL,
    -- The last row of this step that is rewritten: its number; of events, corrected_at_ms. NULL: none.
    last           int8,
    -- Events rewritten so far: the place of the next one in the order.
    event_count    int8   NOT NULL
);
