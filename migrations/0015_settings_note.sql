-- Who changed the settings, and why: SETTINGS_CHANGED_BY and SETTINGS_CHANGE_REASON as they were when the version came
-- into force. NULL: nobody said, or it was still the note of an earlier change.

ALTER TABLE settings_change ADD COLUMN changed_by TEXT;
ALTER TABLE settings_change ADD COLUMN reason TEXT;
