-- Reloads that did not do all that the environment file asks for, and the servers that run on this file: what an operator
-- should see and neither drivers nor events depend on. Both tables are bounded by the server.

CREATE TABLE settings_reload (
    id        INTEGER PRIMARY KEY,
    at_ms     INTEGER NOT NULL,
    -- INSTANCE_NAME of the server.
    instance  TEXT    NOT NULL,
    -- 0: nothing was changed. 1: what could be changed was.
    is_good   INTEGER NOT NULL CHECK (is_good IN (0, 1)),
    -- A sentence on each line.
    details   TEXT    NOT NULL
) STRICT;

CREATE TABLE instance (
    name              TEXT    PRIMARY KEY,
    version           TEXT    NOT NULL,
    settings_version  TEXT    NOT NULL,
    -- A JSON object of what servers on one file should agree on: the value by name, of a secret a keyed hash.
    settings          TEXT    NOT NULL,
    started_at_ms     INTEGER NOT NULL,
    heartbeat_at_ms   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
