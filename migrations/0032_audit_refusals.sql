-- The refused renewals and sign-ins with Apple, and the sign-outs everywhere, that AuditRows bounds for each driver. The
-- condition is the one there, word for word.
CREATE INDEX audit_of_refusals ON audit (driver, id) WHERE driver IS NOT NULL
    AND (action = 'sign_out_all' OR outcome = 'refused' AND action IN ('refresh', 'sign_in_apple'));
