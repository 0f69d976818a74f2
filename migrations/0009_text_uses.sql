-- Whose free texts are in the tables that events share, so that a deletion can take those that nobody else uses. See
-- SQLiteStore/TextUses.swift.

-- A driver named the place, in an event or a registration.
CREATE TABLE place_use (
    driver  INTEGER NOT NULL REFERENCES driver (id),
    place   INTEGER NOT NULL REFERENCES place (id),
    PRIMARY KEY (driver, place)
) STRICT, WITHOUT ROWID;

CREATE INDEX place_use_by_place ON place_use (place);

-- A driver sent an event of that kind. Only of kinds with a free text: a diagnostic name, a source or a schema version
-- that is not usual.
CREATE TABLE event_kind_use (
    driver  INTEGER NOT NULL REFERENCES driver (id),
    kind    INTEGER NOT NULL REFERENCES event_kind (id),
    PRIMARY KEY (driver, kind)
) STRICT, WITHOUT ROWID;

CREATE INDEX event_kind_use_by_kind ON event_kind_use (kind);

-- Keyed digest of the number that a code was sent to or tried for, while nobody was known to have it. A deletion takes
-- the address of these lines too.
ALTER TABLE audit ADD COLUMN phone_digest BLOB;

CREATE INDEX audit_by_phone ON audit (phone_digest) WHERE phone_digest IS NOT NULL;

-- Drivers who are deleted already use nothing.
INSERT INTO place_use (driver, place)
SELECT driver, place FROM (
    SELECT driver, charger AS place FROM event UNION SELECT driver, merchant FROM event
    UNION SELECT driver, charger FROM session UNION SELECT driver, merchant FROM session)
WHERE place IS NOT NULL AND driver IN (SELECT id FROM driver WHERE driver_id NOT LIKE 'erased-%');

INSERT INTO event_kind_use (driver, kind)
SELECT DISTINCT driver, kind FROM event JOIN event_kind ON event_kind.id = kind
WHERE NOT (lifecycle_rank < 15 AND source IN ('ios_native', 'android_native', 'web', 'server') AND schema_version = '1.0')
    AND driver IN (SELECT id FROM driver WHERE driver_id NOT LIKE 'erased-%');

-- What deletions before this version left.
UPDATE place SET place_id = 'erased-place-' || id WHERE id NOT IN (SELECT place FROM place_use);

UPDATE event_kind SET name = iif(lifecycle_rank < 15, name, 'erased_diagnostic'),
    spelling = iif(lifecycle_rank < 15, spelling, 'erased_diagnostic'), source = 'erased-source-' || id,
    schema_version = '1.0'
WHERE NOT (lifecycle_rank < 15 AND source IN ('ios_native', 'android_native', 'web', 'server') AND schema_version = '1.0')
    AND id NOT IN (SELECT kind FROM event_kind_use);

UPDATE event SET occurred_at = strftime(
    iif(instr(occurred_at, '.'), '%Y-%m-%dT%H:%M:%fZ', '%Y-%m-%dT%H:%M:%SZ'), occurred_at_ms / 1000.0, 'unixepoch')
WHERE driver IN (SELECT id FROM driver WHERE driver_id LIKE 'erased-%');
