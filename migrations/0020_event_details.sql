-- The optional members of an event that describe it and decide nothing: a compact JSON object of those that were sent.
-- A further member needs no migration.
ALTER TABLE event ADD COLUMN details TEXT;
