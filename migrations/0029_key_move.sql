-- How far the writer is with writing the keys of the newest events to `event_key`, so that it goes on there after a
-- restart. SQLiteStore/KeyMove.swift.

-- The last event whose key is being written. Not higher than `listed_through` if no keys are being written.
ALTER TABLE event_key_progress ADD COLUMN moving_through INTEGER NOT NULL DEFAULT 0;

-- Of the events up to `moving_through`, `event_key` lists those whose keys belong at lower places.
ALTER TABLE event_key_progress ADD COLUMN moved_place INTEGER NOT NULL DEFAULT 0;
