-- One-time codes: sends counted by network and by number prefix too, and a code for each address that asked, so that
-- somebody else's wrong guesses do not use up the owner's.

-- Keyed hashes. IPv6: the /56 and the /48; IPv4: the /24 and NULL. NULL: the address has no such network.
ALTER TABLE one_time_code_send ADD COLUMN network_digest BLOB CHECK (length(network_digest) = 32);
ALTER TABLE one_time_code_send ADD COLUMN site_digest BLOB CHECK (length(site_digest) = 32);
-- Of the first six digits of the number. NULL: of a version before this one.
ALTER TABLE one_time_code_send ADD COLUMN prefix_digest BLOB CHECK (length(prefix_digest) = 32);
-- 1: the number was an account's. NULL: of a version before this one.
ALTER TABLE one_time_code_send ADD COLUMN is_known INTEGER CHECK (is_known IN (0, 1));
-- 0: a share was used up, so that no message went out, and the answer was the same. NULL is 1.
ALTER TABLE one_time_code_send ADD COLUMN is_sent INTEGER CHECK (is_sent IN (0, 1));

CREATE INDEX one_time_code_send_by_network ON one_time_code_send (network_digest, at_ms);
CREATE INDEX one_time_code_send_by_site ON one_time_code_send (site_digest, at_ms);
CREATE INDEX one_time_code_send_by_prefix ON one_time_code_send (prefix_digest, at_ms) WHERE is_sent AND NOT is_known;
CREATE INDEX one_time_code_send_to_unknown ON one_time_code_send (at_ms) WHERE is_sent AND NOT is_known;
CREATE INDEX one_time_code_send_sent ON one_time_code_send (at_ms) WHERE is_sent IS NOT 0;

-- The codes that are good now; `one_time_code` is that of versions before this one, and no longer written.
CREATE TABLE asked_code (
    phone_digest    BLOB    NOT NULL CHECK (length(phone_digest) = 32),
    -- Of who asked for it.
    address_digest  BLOB    NOT NULL CHECK (length(address_digest) = 32),
    code_digest     BLOB    NOT NULL CHECK (length(code_digest) = 32),
    issued_at_ms    INTEGER NOT NULL,
    expires_at_ms   INTEGER NOT NULL,
    -- Wrong guesses from that address.
    wrong_count     INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (phone_digest, address_digest)
) STRICT, WITHOUT ROWID;

CREATE INDEX asked_code_by_expiry ON asked_code (expires_at_ms);

-- 1: from the address that had asked for a code. NULL: of a version before this one.
ALTER TABLE one_time_code_guess ADD COLUMN is_own INTEGER CHECK (is_own IN (0, 1));
-- IPv6: the /48; IPv4: the /24; else the address.
ALTER TABLE one_time_code_guess ADD COLUMN site_digest BLOB CHECK (length(site_digest) = 32);

CREATE INDEX one_time_code_guess_by_site ON one_time_code_guess (site_digest, at_ms) WHERE NOT is_own;
