-- Who sent an event, because only a service may confirm activations and visits under TRUSTED_CONFIRMATIONS=service.

DROP VIEW event_timeline;

DROP INDEX event_kind_by_members;

-- 0 the app (or the server, for its expiries), 1 an app whose own confirmations have no effect, 2 a service. Events of
-- earlier releases are all 0.
ALTER TABLE event_kind ADD COLUMN sender INTEGER NOT NULL DEFAULT 0 CHECK (sender IN (0, 1, 2));

-- NULLs are distinct to this index; the one writer looks with IS before it inserts.
CREATE UNIQUE INDEX event_kind_by_members
    ON event_kind (name, has_session, spelling, schema_version, source, origin, app_state, sender);

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
    CASE event_kind.sender WHEN 0 THEN 'app' WHEN 1 THEN 'unconfirmed_app' WHEN 2 THEN 'service' END AS sender,
    CASE event.transition WHEN 0 THEN 'none' WHEN 1 THEN 'applied' WHEN 2 THEN 'rejected' END AS transition,
    CASE event.reason
        WHEN 0 THEN 'not_anchored' WHEN 1 THEN 'not_at_merchant' WHEN 2 THEN 'must_depart_first'
        WHEN 3 THEN 'no_such_transition' WHEN 4 THEN 'unconfirmed' END AS reason,
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
