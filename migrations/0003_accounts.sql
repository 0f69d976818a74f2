-- Who signs in and with what, what they hold, and what stays when they are deleted.
--
-- *_digest is 32 bytes: SHA-256 of what nobody can guess (tokens, nonces, a notice's name), HMAC-SHA256 under a key
-- that is not in this file of what somebody could (numbers, codes, addresses, driver ids); see
-- Sources/Identity/KeyedDigests.swift. No token and no code is stored in any other form, Apple's refresh tokens are
-- sealed. A sign-in session that has ended is gone with all that hangs on it; the audit remembers that it was.

-- A driver of another service has a row in `driver` alone.
CREATE TABLE account (
    driver         INTEGER PRIMARY KEY REFERENCES driver (id),
    name           TEXT,
    email          TEXT,
    role           TEXT    NOT NULL,
    created_at_ms  INTEGER NOT NULL
) STRICT;

CREATE TABLE apple_identity (
    -- Apple's `sub`.
    subject           TEXT    PRIMARY KEY,
    driver            INTEGER NOT NULL UNIQUE REFERENCES driver (id),
    -- The app of the first sign-in.
    client_id         TEXT    NOT NULL,
    -- As the last token said, when it was verified.
    email             TEXT,
    is_private_email  INTEGER NOT NULL CHECK (is_private_email IN (0, 1)),
    -- NULL: Apple has not said.
    forwards_email    INTEGER CHECK (forwards_email IN (0, 1)),
    linked_at_ms      INTEGER NOT NULL
) STRICT;

-- Apple gives each app a refresh token of its own, and takes each back by itself.
CREATE TABLE apple_refresh_token (
    driver                INTEGER NOT NULL REFERENCES driver (id),
    client_id             TEXT    NOT NULL,
    sealed_refresh_token  BLOB    NOT NULL,
    PRIMARY KEY (driver, client_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE phone_identity (
    -- E.164.
    phone         TEXT    PRIMARY KEY,
    driver        INTEGER NOT NULL UNIQUE REFERENCES driver (id),
    linked_at_ms  INTEGER NOT NULL
) STRICT;

CREATE TABLE sign_in_session (
    id               INTEGER PRIMARY KEY,
    sid              TEXT    NOT NULL UNIQUE,
    driver           INTEGER NOT NULL REFERENCES driver (id),
    kind             TEXT    NOT NULL CHECK (kind IN ('pair', 'legacy')),
    method           TEXT    NOT NULL CHECK (method IN ('apple', 'otp')),
    client_name      TEXT,
    created_at_ms    INTEGER NOT NULL,
    last_used_at_ms  INTEGER NOT NULL,
    -- When nothing that was given out for it can be used or renewed any more.
    expires_at_ms    INTEGER NOT NULL
) STRICT;

CREATE INDEX sign_in_session_by_driver ON sign_in_session (driver);
CREATE INDEX sign_in_session_by_expiry ON sign_in_session (expires_at_ms);

CREATE TABLE refresh_token (
    digest         BLOB    PRIMARY KEY CHECK (length(digest) = 32),
    session        INTEGER NOT NULL REFERENCES sign_in_session (id),
    issued_at_ms   INTEGER NOT NULL,
    expires_at_ms  INTEGER NOT NULL,
    -- When it was first presented.
    spent_at_ms    INTEGER
) STRICT, WITHOUT ROWID;

CREATE INDEX refresh_token_by_session ON refresh_token (session, expires_at_ms);

-- Nonces of identity tokens that were used, until their tokens expire.
CREATE TABLE apple_nonce (
    digest         BLOB    PRIMARY KEY CHECK (length(digest) = 32),
    expires_at_ms  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX apple_nonce_by_expiry ON apple_nonce (expires_at_ms);

-- Notices of Apple's server that were taken.
CREATE TABLE apple_notice (
    jti_digest   BLOB    PRIMARY KEY CHECK (length(jti_digest) = 32),
    taken_at_ms  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Apple refresh tokens that Apple is still to revoke. Their people are gone.
CREATE TABLE apple_revocation (
    id                    INTEGER PRIMARY KEY AUTOINCREMENT,
    client_id             TEXT    NOT NULL,
    sealed_refresh_token  BLOB    NOT NULL,
    subject_digest        BLOB    NOT NULL CHECK (length(subject_digest) = 32),
    attempt_count         INTEGER NOT NULL DEFAULT 0,
    next_attempt_at_ms    INTEGER NOT NULL,
    created_at_ms         INTEGER NOT NULL
) STRICT;

CREATE INDEX apple_revocation_by_next_attempt ON apple_revocation (next_attempt_at_ms);

-- The one code of a number that is good, if there is one.
CREATE TABLE one_time_code (
    phone_digest   BLOB    PRIMARY KEY CHECK (length(phone_digest) = 32),
    code_digest    BLOB    NOT NULL CHECK (length(code_digest) = 32),
    issued_at_ms   INTEGER NOT NULL,
    expires_at_ms  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX one_time_code_by_expiry ON one_time_code (expires_at_ms);

-- Wrong guesses of the last ten minutes.
CREATE TABLE one_time_code_guess (
    id            INTEGER PRIMARY KEY,
    phone_digest  BLOB    NOT NULL CHECK (length(phone_digest) = 32),
    at_ms         INTEGER NOT NULL
) STRICT;

CREATE INDEX one_time_code_guess_by_phone ON one_time_code_guess (phone_digest, at_ms);
CREATE INDEX one_time_code_guess_by_time ON one_time_code_guess (at_ms);

-- Codes sent within the last hour.
CREATE TABLE one_time_code_send (
    id              INTEGER PRIMARY KEY,
    phone_digest    BLOB    NOT NULL CHECK (length(phone_digest) = 32),
    address_digest  BLOB    NOT NULL CHECK (length(address_digest) = 32),
    at_ms           INTEGER NOT NULL
) STRICT;

CREATE INDEX one_time_code_send_by_phone ON one_time_code_send (phone_digest, at_ms);
CREATE INDEX one_time_code_send_by_address ON one_time_code_send (address_digest, at_ms);
CREATE INDEX one_time_code_send_by_time ON one_time_code_send (at_ms);

CREATE TABLE device (
    id             INTEGER PRIMARY KEY,
    push_token     TEXT    NOT NULL UNIQUE,
    driver         INTEGER NOT NULL REFERENCES driver (id),
    -- NULL: put by a token of another service.
    session        INTEGER REFERENCES sign_in_session (id),
    platform       TEXT    NOT NULL,
    environment    TEXT    NOT NULL,
    app_version    TEXT,
    updated_at_ms  INTEGER NOT NULL
) STRICT;

CREATE INDEX device_by_driver ON device (driver);
CREATE INDEX device_by_session ON device (session) WHERE session IS NOT NULL;

-- Drivers that were deleted: their tokens from before are refused.
CREATE TABLE erased_driver (
    driver_digest  BLOB    PRIMARY KEY CHECK (length(driver_digest) = 32),
    erased_at_ms   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- What every process on this file has to forget, read behind a cursor. NULL: some driver was deleted, forget all.
CREATE TABLE revocation (
    id     INTEGER PRIMARY KEY AUTOINCREMENT,
    sid    TEXT,
    at_ms  INTEGER NOT NULL
) STRICT;

-- Codes of action, outcome and reason: Sources/Identity/Audit.swift.
CREATE TABLE audit (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    at_ms       INTEGER NOT NULL,
    action      TEXT    NOT NULL,
    outcome     TEXT    NOT NULL,
    reason      TEXT,
    -- NULL: nobody was recognised.
    driver      INTEGER REFERENCES driver (id),
    sid         TEXT,
    -- These two are NULL once the driver is deleted, and so is sid.
    address     TEXT,
    request_id  TEXT
) STRICT;

CREATE INDEX audit_by_driver ON audit (driver, id) WHERE driver IS NOT NULL;
-- Lines that are not kept for ever; see Sources/SQLiteStore/Accounts/AuditRows.swift.
CREATE INDEX audit_of_nobody ON audit (at_ms) WHERE driver IS NULL AND action <> 'erased';
CREATE INDEX audit_of_renewals ON audit (at_ms) WHERE action = 'refresh' AND outcome = 'done';
-- The receipt of an erasure.
CREATE INDEX audit_by_receipt ON audit (reason) WHERE action = 'erased';
