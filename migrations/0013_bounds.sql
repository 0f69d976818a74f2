-- What a driver can leave without a limit of its own, bounded: the places of a registered session, and lines of the audit
-- that a driver makes at will.

-- As the registration said them. With the session they go; a row of `place` would stay.
ALTER TABLE session ADD COLUMN registered_charger TEXT;
ALTER TABLE session ADD COLUMN registered_merchant TEXT;

-- The lines that AuditRows bounds for each driver; the condition is the one there, word for word.
CREATE INDEX audit_of_requests ON audit (driver, id) WHERE driver IS NOT NULL
    AND (action IN ('device_added', 'device_removed', 'profile_changed', 'exported')
        OR outcome = 'refused' AND action IN ('otp_send', 'sign_in_otp'));
