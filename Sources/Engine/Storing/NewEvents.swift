// Creates the event that a store folds for a request, and the submission that it stores when a deadline has passed. All
// stores use this code, so the same requests produce the same rows in every store.

package import JourneyModel

extension OrderedEvent {
    /// Creates the event of a request, including the values that determine its position in the order of events.
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
    /// The value of the column `sent_at_ms`: `X-Sent-At`, or else `timestamp`. If the client sent both, the column
    /// `timestamp_ms` stores `timestamp`.
    package var sendTime: Moment? { sentAt ?? timestamp }

    /// The value of the column `event_id`: nil if the event id equals the idempotency key. Most clients send the same
    /// value for both.
    package var eventIDUnlessKey: String? {
        haveSameBytes(eventID, idempotencyKey) ? nil : eventID
    }
}
