-- Whether an event has named the place as its charger. 0: only as its merchant. NULL: stored before this migration, so
-- it is not known. The operator's search for chargers leaves out the places with 0.
ALTER TABLE place ADD COLUMN is_charger INTEGER CHECK (is_charger IN (0, 1));
