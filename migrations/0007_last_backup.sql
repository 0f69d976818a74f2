-- When `dwell backup` last made a copy that was verified, for metrics and alerts. One row, written after the copy: a
-- backup holds the row of the backup before it.
CREATE TABLE last_backup (
    id               INTEGER PRIMARY KEY CHECK (id = 1),
    completed_at_ms  INTEGER NOT NULL,
    -- Of the copy.
    bytes            INTEGER NOT NULL
) STRICT;
