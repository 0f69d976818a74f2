-- What the fold needs to know of a phone's own word, of events within one second, and of why a session ended. The
-- columns are filled for the drivers of an older database when each is folded again: docs/decisions/refold.md.

DROP VIEW event_timeline;

-- A set of steps, a bit each: JourneyModel/ImpliedSteps.swift. The first bit is the reset, as before. Renamed on
-- purpose: an older release that still drains beside this one cannot write any more, so no driver has events that were
-- folded by two sets of rules. What it refuses is sent again.
ALTER TABLE event RENAME COLUMN implies_reset TO implied;

-- The state in which the client says that it was before the event (metadata.previous_state). NULL: it says nothing.
ALTER TABLE event ADD COLUMN previous_state INTEGER;

-- Of an event whose occurred_at has no fraction of a second: its place among those with its time and sequence, as the
-- fold found it. NULL for all others, which come before them.
ALTER TABLE event ADD COLUMN second_place INTEGER;

ALTER TABLE event ADD COLUMN after_ended_by INTEGER;

ALTER TABLE event ADD COLUMN after_previous_session INTEGER;

-- The session in progress that this event closed by beginning another journey: superseded if after_session is another
-- one, reset otherwise.
ALTER TABLE event ADD COLUMN closed_session INTEGER;

CREATE INDEX event_by_closed_session ON event (closed_session) WHERE closed_session IS NOT NULL;

ALTER TABLE driver ADD COLUMN ended_by INTEGER;

ALTER TABLE driver ADD COLUMN previous_session INTEGER;

-- Fold.rulesVersion of the release that folded the driver's events. 1: every release before this column.
ALTER TABLE driver ADD COLUMN rules INTEGER NOT NULL DEFAULT 1;

ALTER TABLE journey_base ADD COLUMN ended_by INTEGER;

ALTER TABLE journey_base ADD COLUMN previous_session INTEGER;

-- For people: a driver's events with the codes spelled out, to be ordered by id (as stored) or by corrected_at_ms.
CREATE VIEW event_timeline AS
SELECT
    event.id,
    driver.driver_id,
    event_kind.name,
    session.session_id,
    event.occurred_at,
    event.corrected_at_ms,
    event.sequence,
    event.second_place,
    event_kind.source,
    CASE event.transition WHEN 0 THEN 'none' WHEN 1 THEN 'applied' WHEN 2 THEN 'rejected' END AS transition,
    CASE event.reason
        WHEN 0 THEN 'not_anchored' WHEN 1 THEN 'not_at_merchant' WHEN 2 THEN 'must_depart_first'
        WHEN 3 THEN 'no_such_transition' END AS reason,
    event.implied,
    CASE event.previous_state
        WHEN 0 THEN 'IDLE' WHEN 1 THEN 'NEAR_CHARGER' WHEN 2 THEN 'ANCHORED' WHEN 3 THEN 'SESSION_ACTIVE'
        WHEN 4 THEN 'IN_TRANSIT' WHEN 5 THEN 'AT_MERCHANT' WHEN 6 THEN 'SESSION_ENDED' END AS previous_state,
    CASE event.after_state
        WHEN 0 THEN 'IDLE' WHEN 1 THEN 'NEAR_CHARGER' WHEN 2 THEN 'ANCHORED' WHEN 3 THEN 'SESSION_ACTIVE'
        WHEN 4 THEN 'IN_TRANSIT' WHEN 5 THEN 'AT_MERCHANT' WHEN 6 THEN 'SESSION_ENDED' END AS state_after,
    CASE event.after_ended_by
        WHEN 0 THEN 'verified' WHEN 1 THEN 'grace' WHEN 2 THEN 'hard_timeout' WHEN 3 THEN 'requested' END AS ended_by
FROM event
JOIN driver ON driver.id = event.driver
JOIN event_kind ON event_kind.id = event.kind
LEFT JOIN session ON session.id = event.session;
