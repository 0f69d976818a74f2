// Random events for tests of the fold in memory and of stores on disk. Most events are the next step of a visit, and
// the others are random. Many events have equal or nearly equal times.

import Foundation
package import JourneyModel

package enum RandomJourney {
    private static let names = EventName.listed + [.diagnostic("teleport_detected")]
    private static let course: [EventName] = [
        .chargerTargeted, .enteredChargerIntentZone, .anchorDwellComplete, .exclusiveActivatedByWeb,
        .departedCharger, .enteredMerchantZone, .visitVerifiedByWeb,
    ]
    private static let steps: [Int64] = [
        0, 0, 0, 1, 999, 1000, 30_000, 60_000, 60_001, 599_999, 900_000, 3_600_000,
    ]

    private static let sources: [EventName: JourneyState] = [
        .enteredChargerIntentZone: .idle, .exitedChargerIntentZone: .nearCharger, .anchorDwellComplete: .nearCharger,
        .anchorLost: .anchored, .exclusiveActivatedByWeb: .anchored, .departedCharger: .sessionActive,
        .enteredMerchantZone: .inTransit, .visitVerifiedByWeb: .atMerchant, .gracePeriodExpired: .inTransit,
    ]

    /// Returns at most `countMax` events, sorted by `<`. Events of the same second arrive in this order. Idempotency
    /// keys are `k` and a number, and session ids are `sessionPrefix` and a number.
    ///
    /// - Parameter wholeSeconds: if true, about one journey in three has only times in whole seconds. For these, the
    ///   fold considers the order of arrival within a second. If false, all times are in milliseconds.
    package static func events(
        from start: Moment, countMax: Int = 40, sessionPrefix: String = "s", wholeSeconds: Bool = true,
        _ random: inout SeededRandom
    ) -> [OrderedEvent] {
        let isWhole = wholeSeconds && random.chance(1, in: 3)
        let givesEvidence = random.chance(1, in: 2)
        let hasServices = random.chance(1, in: 3)
        var (events, milliseconds, session, likely): ([OrderedEvent], Int64, Int, Int) = ([], 0, 1, 0)
        for index in 0..<Int.random(in: 1...countMax, using: &random) {
            milliseconds += steps.randomPick(&random)
            if isWhole { milliseconds -= milliseconds % 1000 }
            let name = random.chance(3, in: 4) ? course[likely % course.count] : names.randomPick(&random)
            if name == course[likely % course.count] { likely += 1 }
            if likely % course.count == 0 { session = Int.random(in: 1...3, using: &random) }
            let needsSession =
                name.requiresSession || name != .anchorLost && random.chance(name == .webRequestedEnd ? 4 : 1, in: 5)
            let ofAnother = random.chance(1, in: 12)
            let sender: OrderedEvent.Sender =
                !hasServices ? .app : random.chance(1, in: 3) ? .service : .unconfirmedApp
            let evidence =
                !givesEvidence || random.chance(1, in: 4)
                ? nil : random.chance(1, in: 6) ? JourneyState.allCases.randomPick(&random) : sources[name]
            events.append(
                OrderedEvent(
                    name: name, sessionID: needsSession ? "\(sessionPrefix)\(ofAnother ? 9 : session)" : nil,
                    chargerID: random.chance(1, in: 2) ? "c\(Int.random(in: 1...3, using: &random))" : nil,
                    occurredAt: start.advanced(byMilliseconds: milliseconds),
                    sequence: random.chance(1, in: 2) ? Int64.random(in: 0...5, using: &random) : nil,
                    eventID: "e\(Int.random(in: 0...9, using: &random))", idempotencyKey: "k\(index)",
                    origin: .client, sender: sender, previousState: evidence, isWholeSecond: isWhole,
                    gracePeriodSeconds: [60, 600, 900, 3600].randomPick(&random),
                    hardTimeoutSeconds: [600, 3600].randomPick(&random)))
        }
        return events.sorted()
    }
}

/// The number and the seeds of the random journeys of a property test.
package enum PropertyRun {
    /// Returns one seed for each journey. The environment variable `variable` sets the number of seeds; without it,
    /// there are `count`. DWELL_PROPERTY_SEED sets the first seed; without it, the first seed is 1.
    package static func seeds(_ variable: String, unlessSet count: UInt64) -> Range<UInt64> {
        let first = number("DWELL_PROPERTY_SEED") ?? 1
        return first..<(first + (number(variable) ?? count))
    }

    private static func number(_ variable: String) -> UInt64? {
        ProcessInfo.processInfo.environment[variable].flatMap { UInt64($0) }.flatMap { $0 > 0 ? $0 : nil }
    }
}
