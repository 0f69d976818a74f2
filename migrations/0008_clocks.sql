-- Which clock was believed, and why. See docs/contract.md, section 3, "Clocks".

-- What is remembered of the driver's clocks beside last_correction_ms: SQLiteStore/ClockMemoryBytes.swift. NULL: nothing.
ALTER TABLE driver ADD COLUMN clock_memory BLOB;

-- `timestamp` of an event that came with X-Sent-At; sent_at_ms is then the latter.
ALTER TABLE event ADD COLUMN timestamp_ms INTEGER;

-- Which rule decided corrected_at_ms: SQLiteStore/Codes.swift. NULL: an event of the server, or of before this column.
ALTER TABLE event ADD COLUMN clock_rule INTEGER;

-- A driver of whom a right clock was seen, to five minutes.
UPDATE driver SET clock_memory = x'01' WHERE EXISTS (
    SELECT 1 FROM event
    WHERE event.driver = driver.id AND sent_at_ms IS NOT NULL AND skew_ms BETWEEN -300000 AND 300000);
