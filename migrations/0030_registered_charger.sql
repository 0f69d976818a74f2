-- The operator's search finds chargers that only registered sessions have, by their beginning.
CREATE INDEX session_by_registered_charger ON session (registered_charger) WHERE registered_charger IS NOT NULL;
