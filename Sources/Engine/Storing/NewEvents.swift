// Converts a request to the event that a store folds, and an expired deadline to the submission that a store stores.
// All stores use this code, so the same requests produce the same rows in every store.

package import JourneyModel

extension OrderedEvent {
    /// Creates the event that a store folds for the request.
    package init(_ request: AppendRequest, correctedAt: Moment, settings: Settings) {
        self.init(
            name: request.submission.name, sessionID: request.submission.sessionID,
            chargerID: request.submission.chargerID, occurredAt: correctedAt,
            sequence: request.submission.sequence, eventID: request.submission.eventID,
            idempotencyKey: request.submission.idempotencyKey, origin: .client,
            sender: request.sender, previousState: request.submission.previousState,
            isWholeSecond: request.submission.isWholeSecond, gracePeriodSeconds: settings.gracePeriodSeconds,
            hardTimeoutSeconds: settings.hardTimeoutSeconds)
    }
}

extension EventSubmission {
    /// Creates the submission that is stored when a deadline has passed.
    package init(expiry: OrderedEvent) {
        self.init(
            name: expiry.name, spelling: expiry.name.canonical, eventID: expiry.eventID,
            idempotencyKey: expiry.idempotencyKey, sessionID: expiry.sessionID, occurredAt: expiry.occurredAt,
            occurredAtText: RFC3339.text(of: expiry.occurredAt), source: "server",
            canonicalForm: Array(expiry.idempotencyKey.utf8))
    }
}

extension EventSubmission {
    /// The value of the column `sent_at_ms`: `X-Sent-At` if the client sent it, otherwise `timestamp`. The column
    /// `timestamp_ms` stores `timestamp` if the client sent both.
    package var sendTime: Moment? { sentAt ?? timestamp }

    /// The value of the column `event_id`. Nil if the event id equals the idempotency key, as it does for most clients.
    package var eventIDUnlessKey: String? {
        haveSameBytes(eventID, idempotencyKey) ? nil : eventID
    }
}
