-- When which settings came into force: at a start or a SIGHUP that found others than before. settings_version has
-- those that events were stored under.

CREATE TABLE settings_change (
    id        INTEGER PRIMARY KEY,
    at_ms     INTEGER NOT NULL,
    version   TEXT    NOT NULL,
    -- The body of GET /native/config under this version.
    settings  TEXT    NOT NULL
) STRICT;
