-- Corrections of settings: events of a time span are folded with other settings than those stored with them.
CREATE TABLE settings_correction (
    id              INTEGER PRIMARY KEY,
    at_ms           INTEGER NOT NULL,
    -- The receive times of the corrected events: since <= received_at_ms < until.
    since_ms        INTEGER NOT NULL,
    until_ms        INTEGER NOT NULL,
    -- The settings that the fold uses from now on. NULL: those stored with each event, as before any correction.
    settings        INTEGER REFERENCES settings_version (id),
    -- Only events stored with these settings are corrected. NULL: all.
    instead_of      INTEGER REFERENCES settings_version (id),
    changed_by      TEXT    NOT NULL,
    reason          TEXT    NOT NULL,
    -- NULL: not all drivers are refolded yet. The same order continues it.
    finished_at_ms  INTEGER
) STRICT;

-- The settings with which the fold uses the event. NULL: those in force when it was stored (settings_version).
ALTER TABLE event ADD COLUMN fold_settings INTEGER REFERENCES settings_version (id);

ALTER TABLE refold ADD COLUMN correction INTEGER REFERENCES settings_correction (id);

-- Drivers whose journey a correction changed. No event shows this change, so the streams of all servers read it here.
CREATE TABLE corrected_journey (
    id      INTEGER PRIMARY KEY AUTOINCREMENT,
    driver  INTEGER NOT NULL REFERENCES driver (id)
) STRICT;

CREATE INDEX corrected_journey_by_driver ON corrected_journey (driver);
