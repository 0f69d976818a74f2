-- Purchases in the App Store: whose they are, and what Apple signed about them.

-- The UUID by which an app tells Apple whose purchase it is (StoreKit's appAccountToken). One for each driver, random.
CREATE TABLE app_account_token (
    driver  INTEGER PRIMARY KEY REFERENCES driver (id),
    token   TEXT    NOT NULL UNIQUE
) STRICT;

-- A purchase, or a subscription through all of its renewals: what has one original transaction id.
CREATE TABLE purchase (
    id                       INTEGER PRIMARY KEY,
    -- Apple's word: Production, Sandbox, Xcode, LocalTesting. Ids are unique within it.
    environment              TEXT    NOT NULL,
    original_transaction_id  TEXT    NOT NULL,
    -- NULL: nobody has shown it yet, or its driver was deleted.
    driver                   INTEGER REFERENCES driver (id),
    -- An operator gave it to this driver, whatever account token Apple signed. NULL after a deletion.
    moved_at_ms              INTEGER,
    UNIQUE (environment, original_transaction_id)
) STRICT;

CREATE INDEX purchase_by_driver ON purchase (driver) WHERE driver IS NOT NULL;

-- The JWS headers, base64url: each is three certificates, 5 KB, and Apple uses few.
CREATE TABLE purchase_signer (
    id             INTEGER PRIMARY KEY,
    header         TEXT    NOT NULL UNIQUE,
    -- When Apple last said whether it revoked the certificates (OCSP).
    checked_at_ms  INTEGER,
    -- What was signed from then on is not believed.
    revoked_at_ms  INTEGER
) STRICT;

-- The newest that Apple signed about each transaction. `header.base64url(payload).base64url(signature)` is the JWS.
CREATE TABLE purchase_transaction (
    id                 INTEGER PRIMARY KEY,
    purchase           INTEGER NOT NULL REFERENCES purchase (id),
    environment        TEXT    NOT NULL,
    transaction_id     TEXT    NOT NULL,
    -- As in the payload, in lower case.
    account_token      TEXT,
    signed_at_ms       INTEGER NOT NULL,
    -- JSON. After a deletion of the driver: without what could lead to a person, and no longer as it was signed.
    payload            BLOB    NOT NULL,
    signer             INTEGER REFERENCES purchase_signer (id),
    signature          BLOB,
    UNIQUE (environment, transaction_id)
) STRICT;

CREATE INDEX purchase_transaction_by_purchase ON purchase_transaction (purchase);

-- The newest that Apple signed about the next renewal of a subscription.
CREATE TABLE purchase_renewal (
    purchase      INTEGER PRIMARY KEY REFERENCES purchase (id),
    signed_at_ms  INTEGER NOT NULL,
    payload       BLOB    NOT NULL,
    signer        INTEGER REFERENCES purchase_signer (id),
    signature     BLOB
) STRICT;

-- Notifications that were taken, so that one sent again has no second effect.
CREATE TABLE store_notification (
    -- Apple's notificationUUID, in lower case.
    uuid            TEXT    PRIMARY KEY,
    type            TEXT    NOT NULL,
    subtype         TEXT,
    environment     TEXT    NOT NULL,
    purchase        INTEGER REFERENCES purchase (id),
    signed_at_ms    INTEGER NOT NULL,
    received_at_ms  INTEGER NOT NULL,
    -- JSON, of a type that this release does not know; NULL for all others.
    payload         BLOB
) STRICT;

CREATE INDEX store_notification_by_arrival ON store_notification (received_at_ms);
CREATE INDEX store_notification_by_purchase ON store_notification (purchase) WHERE purchase IS NOT NULL;
