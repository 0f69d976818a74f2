-- How far Apple's history of notifications was read, and about whom a notification without a purchase is.

CREATE TABLE notification_history (
    -- Apple's word: Production, Sandbox.
    environment  text  COLLATE "C" NOT NULL,
    bundle_id    text  COLLATE "C" NOT NULL,
    -- Every notification that Apple sent until then was received, or read from the history.
    read_to_ms   int8  NOT NULL,
    PRIMARY KEY (environment, bundle_id)
);

-- The customer's id at Apple for the app (appTransactionId), if the notification is about a customer. By it, a deletion
-- of the driver finds the notification.
ALTER TABLE store_notification ADD COLUMN app_transaction_id text COLLATE "C";

CREATE INDEX store_notification_by_app_transaction ON store_notification (app_transaction_id)
WHERE app_transaction_id IS NOT NULL;
