-- The verification code that a service requested for a session. Only a keyed hash of it is stored. No foreign key to
-- session: retention deletes sessions, and the row goes with the next codes.
CREATE TABLE session_code (
    session         INTEGER PRIMARY KEY,
    driver          INTEGER NOT NULL REFERENCES driver (id),
    code_digest     BLOB    NOT NULL CHECK (length(code_digest) = 32),
    issued_at_ms    INTEGER NOT NULL,
    -- The hard deadline of the session when the code was issued.
    expires_at_ms   INTEGER NOT NULL,
    wrong_count     INTEGER NOT NULL DEFAULT 0,
    -- When the right code was first received; the time of the session's visitVerifiedByWeb.
    accepted_at_ms  INTEGER
) STRICT;

CREATE INDEX session_code_by_driver ON session_code (driver);

CREATE INDEX session_code_by_expiry ON session_code (expires_at_ms);
