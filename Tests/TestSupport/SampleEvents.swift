// Submissions for tests, with a default for every member.

package import Engine
package import JourneyModel

extension EventSubmission {
    /// Returns an event of a phone with a correct clock. `key` is the idempotency key and, without `eventID`, also the
    /// event_id. The function does not check whether the event needs a session.
    package static func sample(
        _ name: EventName, key: String, eventID: String? = nil, session: String? = nil, charger: String? = nil,
        merchant: String? = nil, at occurredAt: Moment = .sample, sentAt: Moment? = nil, sequence: Int64? = nil,
        source: String = "ios_native", metadata: String? = nil, previousState: JourneyState? = nil,
        isWholeSecond: Bool = false
    ) -> EventSubmission {
        var submission = EventSubmission(
            name: name, spelling: name.canonical, eventID: eventID ?? key, idempotencyKey: key, sessionID: session,
            chargerID: charger, merchantID: merchant, occurredAt: occurredAt,
            occurredAtText: "\(occurredAt.millisecondsSinceEpoch)\(isWholeSecond ? "" : ".") as text", sentAt: sentAt,
            source: source, appState: "background", sequence: sequence, metadata: metadata,
            previousState: previousState, canonicalForm: [])
        submission.canonicalForm = submission.canonicalForm(appState: "background", schemaVersion: "1.0") ?? []
        return submission
    }
}

extension AppendRequest {
    /// Returns a request with default settings, received an hour after the sample moment.
    package static func sample(
        _ submission: EventSubmission, of driver: DriverID, receivedAt: Moment = .sample.advanced(bySeconds: 3600),
        settings: Settings = Settings(), requiresRegisteredSession: Bool = false,
        sender: OrderedEvent.Sender = .app, service: DriverID? = nil
    ) -> AppendRequest {
        AppendRequest(
            driver: driver, submission: submission, receivedAt: receivedAt,
            settings: VersionedSettings(settings: settings, version: settings.version),
            requiresRegisteredSession: requiresRegisteredSession, sender: sender, service: service)
    }
}

/// The events of whole journeys.
package enum SampleJourney {
    /// Returns eight events from IDLE to SESSION_ENDED, half a minute apart. Each idempotency key is `prefix` and a
    /// number.
    package static func whole(prefix: String, session: String, from start: Moment = .sample) -> [EventSubmission] {
        let names: [(EventName, hasSession: Bool)] = [
            (.chargerTargeted, false), (.enteredChargerIntentZone, false), (.anchorDwellComplete, false),
            (.exclusiveActivatedByWeb, true), (.departedCharger, true), (.enteredMerchantZone, true),
            (.visitVerifiedByWeb, true), (.sessionRestored, true),
        ]
        return names.enumerated().map { index, name in
            .sample(
                name.0, key: "\(prefix)\(index)", session: name.hasSession ? session : nil,
                charger: index < 2 ? "charger-1" : nil, at: start.advanced(bySeconds: 30 * index))
        }
    }

    /// Returns `count` random events with up to two sessions and three chargers. They may form an impossible journey.
    /// Some events have a sequence. Each idempotency key is `prefix` and a number.
    ///
    /// Each time is `start` plus a whole number of seconds, at most `spanSeconds`. A short span makes many times equal.
    package static func random(
        count: Int, prefix: String, spanSeconds: Int = 5400, from start: Moment = .sample,
        using random: inout SeededRandom
    ) -> [EventSubmission] {
        (0..<count).map { index in
            let name = anyName(using: &random)
            let hasSession =
                name == .anchorLost ? false : name.requiresSession || Int.random(in: 0..<6, using: &random) == 0
            return .sample(
                name, key: "\(prefix)\(index)", eventID: "e\(Int.random(in: 0..<4, using: &random))",
                session: hasSession ? "\(prefix)s\(Int.random(in: 0..<2, using: &random))" : nil,
                charger: Bool.random(using: &random) ? "c\(Int.random(in: 0..<3, using: &random))" : nil,
                at: start.advanced(bySeconds: Int.random(in: 0...spanSeconds, using: &random)),
                sequence: Bool.random(using: &random) ? Int64.random(in: 0..<3, using: &random) : nil)
        }
    }

    /// Most names are steps of a visit, so that random journeys also reach the later states.
    private static func anyName(using random: inout SeededRandom) -> EventName {
        let path: [EventName] = [
            .enteredChargerIntentZone, .anchorDwellComplete, .exclusiveActivatedByWeb, .departedCharger,
            .enteredMerchantZone, .visitVerifiedByWeb,
        ]
        let all = EventName.listed + [.diagnostic("teleport_detected")]
        let names = Int.random(in: 0..<4, using: &random) > 0 ? path : all
        return names[Int.random(in: 0..<names.count, using: &random)]
    }
}
