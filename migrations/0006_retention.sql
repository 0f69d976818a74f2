-- Where a driver's fold begins once older events are deleted. See docs/decisions/retention.md.

-- Events with corrected_at_ms below it are not folded: they were deleted, will be, or came too late to count. NULL:
-- nothing of this driver was deleted. It never goes back.
ALTER TABLE driver ADD COLUMN floor_at_ms INTEGER;

-- The journey at the floor: after the last event below it. A row for each driver that has a floor. No foreign keys
-- on what a journey names, as in the driver's row; a session that is named here is not deleted.
CREATE TABLE journey_base (
    driver               INTEGER PRIMARY KEY REFERENCES driver (id),
    state                INTEGER NOT NULL,
    session              INTEGER,
    target_charger       INTEGER,
    next_target_charger  INTEGER,
    grace_deadline_ms    INTEGER,
    hard_deadline_ms     INTEGER
) STRICT;
