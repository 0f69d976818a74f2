-- What readers of journeys ask for: a driver's sessions, a session's events, and what changed while a reader was away.

-- The last changes of the journey, where the driver stood after each: see Sources/SQLiteStore/RecentChanges.swift.
-- Event rows cannot tell, because a late event alters what stands in those after it.
ALTER TABLE driver ADD COLUMN recent_changes BLOB;

CREATE INDEX session_by_driver ON session (driver);

-- In the order of the fold, down to the millisecond, as event_by_time.
CREATE INDEX event_by_session ON event (session, corrected_at_ms) WHERE session IS NOT NULL;
