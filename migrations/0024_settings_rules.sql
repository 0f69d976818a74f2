-- The rules of SETTINGS_RULES_FILE that came into force with the settings: the first 16 hexadecimal digits of the file's
-- SHA-256, and the rules as JSON without their drivers. NULL: there was no file.

ALTER TABLE settings_change ADD COLUMN rules_version TEXT;
ALTER TABLE settings_change ADD COLUMN rules TEXT;
