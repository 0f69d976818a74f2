-- Refolds that take more than one transaction: because a late event changes more events after it than one transaction may
-- write, or because another release folded the driver. While a driver has a row here, driver.rules is 0.
CREATE TABLE refold (
    driver     INTEGER PRIMARY KEY REFERENCES driver (id),
    -- The late event that caused it. NULL: the rules of another release.
    cause      INTEGER,
    -- Fold.rulesVersion of the release that refolds.
    rules      INTEGER NOT NULL,
    -- The last refolded event in the order of the fold; the next transaction continues after its millisecond.
    last_event INTEGER NOT NULL,
    -- Events refolded so far.
    row_count  INTEGER NOT NULL
) STRICT;
