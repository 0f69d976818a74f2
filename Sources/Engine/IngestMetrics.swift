// The metrics of received events, their outcomes, and the rate limiter's decisions. The label `event` is the canonical
// name of a listed event, and `diagnostic` for every other event.

internal import CoreMetrics
internal import JourneyModel
package import MetricInstruments
import RateLimiting

extension MetricFamily {
    package static let events = MetricFamily(
        "dwell_events_total",
        "Events by canonical name (diagnostic: any other name), source (other: any other text) and outcome.")
    static let admissions = MetricFamily(
        "dwell_admissions_total", "Rate limit decisions by class of event.")
}

struct IngestMetrics: Sendable {
    private let events: CounterTable
    private let admissions: CounterTable

    private enum Outcome: Int, CaseIterable {
        case applied, none, rejected, repeated, rateLimited, keyReused, sessionNotFound, driverNotFound, failed

        var label: String {
            switch self {
            case .applied: "applied"
            case .none: "none"
            case .rejected: "rejected"
            case .repeated: "already_processed"
            case .rateLimited: "rate_limited"
            case .keyReused: "key_reused"
            case .sessionNotFound: "session_not_found"
            case .driverNotFound: "driver_not_found"
            case .failed: "failed"
            }
        }
    }

    private static let verdicts = ["admitted", "known", "refused"]
    private static let classes = RateLimitClass.ofEvents + [.serviceEvents]
    /// The number of entries for one source: one for each listed name, and one for all diagnostic events.
    private static let nameCount = EventName.listed.count + 1

    init(_ factory: any MetricsFactory) {
        // `anchorLost` and `departedCharger` have the same canonical name, so they share one time series.
        let names = EventName.listed.map(\.canonical) + ["diagnostic"]
        let outcomes = Outcome.allCases
        let sources = EventSource.allCases
        events = CounterTable(
            .events, count: sources.count * names.count * outcomes.count, factory: factory
        ) { index in
            let (source, rest) = index.quotientAndRemainder(dividingBy: names.count * outcomes.count)
            return [
                ("event", names[rest / outcomes.count]), ("source", sources[source].label),
                ("verdict", outcomes[rest % outcomes.count].label),
            ]
        }
        admissions = CounterTable(
            .admissions, count: Self.classes.count * Self.verdicts.count, factory: factory
        ) { index in
            [
                ("class", Self.classes[index / Self.verdicts.count].rawValue),
                ("decision", Self.verdicts[index % Self.verdicts.count]),
            ]
        }
    }

    /// Counts one event. The event of a cancelled request is not counted, because the server did not fail.
    ///
    /// The `lifecycleRank` of a listed name is its index in the contract's list. All diagnostic events have the next
    /// higher rank.
    func count(_ name: EventName, _ source: EventSource, _ outcome: EventOutcome) {
        if outcome == .failed(.cancelled) { return }
        let row = source.rawValue * Self.nameCount + Int(name.lifecycleRank)
        events.count(row * Outcome.allCases.count + label(of: outcome).rawValue)
    }

    func count(_ limitClass: RateLimitClass, _ verdict: AdmissionDecision.Verdict) {
        let row =
            switch limitClass {
            case .sessionEvents: 0
            case .serviceEvents: 2
            default: 1
            }
        let column: Int =
            switch verdict {
            case .admitted: 0
            case .known: 1
            case .refused: 2
            }
        admissions.count(row * Self.verdicts.count + column)
    }

    private func label(of outcome: EventOutcome) -> Outcome {
        switch outcome {
        case .replayed: return .repeated
        case .stored(let event):
            switch event.verdict.transition {
            case .applied: return .applied
            case .none: return .none
            case .rejected: return .rejected
            }
        case .rateLimited: return .rateLimited
        case .keyReused: return .keyReused
        case .sessionNotFound: return .sessionNotFound
        case .driverNotFound: return .driverNotFound
        case .failed: return .failed
        }
    }
}
