-- Counts of events, answers and durations over time, for the operator's page. Written once a minute; old steps are
-- deleted. No row is about a driver.
CREATE TABLE operation_count (
    -- 60, 900 or 7200.
    step_seconds  INTEGER NOT NULL,
    begins_at_ms  INTEGER NOT NULL,
    -- event.<outcome>, status.<code>, duration.<upper bound in microseconds>
    series        TEXT    NOT NULL,
    count         INTEGER NOT NULL,
    PRIMARY KEY (step_seconds, begins_at_ms, series)
) STRICT, WITHOUT ROWID;

-- Sessions of all drivers, by time.
CREATE INDEX session_by_opening ON session (opened_at_ms);
