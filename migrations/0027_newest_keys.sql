-- The keys of the newest events are not in `event_key`: the server has them in memory, and writes them there later, many
-- at a time and in the order of their places. SQLiteStore/NewestKeys.swift.
--
-- A server of before this migration, which may still run during an update, would not see the keys in memory, and would
-- store an event again. The new name of the column makes it refuse events instead.
ALTER TABLE event_key RENAME COLUMN event TO number;

CREATE TABLE event_key_progress (
    id              INTEGER PRIMARY KEY CHECK (id = 1),
    -- `event_key` lists every event up to this number, and some of the later ones.
    listed_through  INTEGER NOT NULL
) STRICT;

INSERT INTO event_key_progress (id, listed_through)
SELECT 1, coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'event_row'), 0);

-- Later events that were deleted, or whose key was changed, before the server wrote their keys: it leaves them out. Those
-- that were changed are in `event_key`.
CREATE TABLE event_key_early (
    number  INTEGER PRIMARY KEY
) STRICT;
