// Refolds stored journeys by the rules of this release (docs/decisions/refold.md).

package import JourneyModel

/// The port that refolds drivers by the rules of this release, and completes interrupted refolds.
package protocol JourneyRefolder: Sendable {
    /// Refolds the next driver that `request` selects. One call examines a limited number of drivers, so it may find
    /// none to refold.
    ///
    /// On SQLite, one call refolds at most as many events as one transaction may change. On PostgreSQL, one call
    /// refolds all events of the driver.
    func refold(_ request: RefoldRequest) async throws(StoreFailure) -> RefoldPart

    /// The number of requests that wait for the writer. While this number is not 0, background work waits for up to a
    /// tenth of a second before it refolds the next part.
    var writesWaiting: Int { get }
}

/// Which drivers to refold. If `correction` is nil, these are the drivers folded by another release's rules, and the
/// drivers whose refold is incomplete.
package struct RefoldRequest: Hashable, Sendable {
    /// The row number of the last examined driver; 0 at the beginning.
    package var after: Int64
    /// If set, only drivers that have an event received at or after this time are refolded. Nil if `correction` is set,
    /// because a correction has its own times.
    package var since: Moment?
    /// The row number of a correction of settings (`SettingsCorrection`). If set, only drivers whose events the
    /// correction changes are refolded. The refold of a driver begins with the first of these events.
    package var correction: Int64?
    /// If true, only urgent refolds are done. On SQLite, incomplete refolds are urgent, because reads and late events
    /// of their drivers wait for them. On PostgreSQL, the refolds of drivers with a deadline before `now` are urgent,
    /// because the session stays open until the driver is refolded.
    package var urgentOnly: Bool
    /// The time at which the states before and after the refold are compared. A session whose deadline has passed at
    /// this time counts as ended. If `now` is nil, a session counts as ended only if its expiry is stored.
    package var now: Moment?

    package init(
        after: Int64 = 0, since: Moment? = nil, correction: Int64? = nil, urgentOnly: Bool = false, now: Moment? = nil
    ) {
        self.after = after
        self.since = since
        self.correction = correction
        self.urgentOnly = urgentOnly
        self.now = now
    }
}

package struct RefoldPart: Hashable, Sendable {
    /// The row number after which the next part begins; nil when all drivers are done.
    package var next: Int64?
    package var counts: RefoldCounts
    /// Why one driver could not be refolded; nil if there was no failure. The next part begins after that driver.
    package var failure: StoreFailure?

    package init(next: Int64?, counts: RefoldCounts, failure: StoreFailure? = nil) {
        self.next = next
        self.counts = counts
        self.failure = failure
    }
}

/// Counts the refolded drivers and events, and what the refold changed.
package struct RefoldCounts: Hashable, Sendable {
    package var drivers = 0
    package var events = 0
    /// The number of expiry events that were missing before the refold.
    package var expiries = 0
    /// Drivers whose state changed.
    package var movedDrivers = 0
    /// Events with a changed verdict, by old and new verdict.
    package var verdicts: [RefoldChange: Int] = [:]
    /// The number of sessions whose outcome (`SessionOutcome`) changed, by old and new outcome.
    package var sessions: [RefoldChange: Int] = [:]
    /// For each change in `sessions`, the ids of the first `examplesMax` sessions.
    package var sessionExamples: [RefoldChange: [String]] = [:]
    /// The number of sessions whose old and new outcomes were compared.
    package var sessionsFolded = 0

    package static let examplesMax = 3

    package init() {}

    /// Counts an event that was refolded.
    package mutating func countEvent(_ old: Verdict, _ new: Verdict) {
        events += 1
        if old != new { verdicts[RefoldChange(from: Self.text(old), to: Self.text(new)), default: 0] += 1 }
    }

    private static func text(_ verdict: Verdict) -> String {
        verdict.transition.rawValue + (verdict.reason.map { " " + $0.rawValue } ?? "")
            + (verdict.implied.isEmpty ? "" : ", implied " + verdict.implied.names.joined(separator: " "))
    }

    /// Counts a session that changed.
    package mutating func add(_ change: RefoldChange, sessionID: String) {
        sessions[change, default: 0] += 1
        if sessionExamples[change, default: []].count < Self.examplesMax {
            sessionExamples[change, default: []].append(sessionID)
        }
    }

    /// Counts a driver. `stored` is the journey before the refold, and `folded` the journey after it.
    ///
    /// - Parameter now: see `RefoldRequest.now`.
    package mutating func countDriver(stored: Journey, folded: Journey, now: Moment?) {
        drivers += 1
        let state = { (journey: Journey) in now.map { journey.advanced(to: $0).state } ?? journey.state }
        if state(stored) != state(folded) { movedDrivers += 1 }
    }

    /// Counts a driver's sessions, and those whose outcome changed.
    ///
    /// - Parameters:
    ///   - old, new: the outcomes of the sessions before and after the refold.
    ///   - id: returns a session's id.
    package mutating func countSessions<Session: Hashable & Comparable>(
        _ old: [Session: SessionOutcome], _ new: [Session: SessionOutcome], id: (Session) -> String
    ) {
        let sessions = Set(old.keys).union(new.keys)
        sessionsFolded += sessions.count
        for session in sessions.sorted() where old[session] != new[session] {
            let (before, after) = (old[session]?.text, new[session]?.text)
            add(
                RefoldChange(from: before ?? "not activated", to: after ?? "not activated"), sessionID: id(session))
        }
    }

    package static func += (sum: inout RefoldCounts, other: RefoldCounts) {
        sum.drivers += other.drivers
        sum.events += other.events
        sum.expiries += other.expiries
        sum.movedDrivers += other.movedDrivers
        sum.verdicts.merge(other.verdicts, uniquingKeysWith: +)
        sum.sessions.merge(other.sessions, uniquingKeysWith: +)
        sum.sessionExamples.merge(other.sessionExamples) { Array(($0 + $1).prefix(examplesMax)) }
        sum.sessionsFolded += other.sessionsFolded
    }
}

/// The outcome of a session: its state, or why it ended.
package enum SessionOutcome: Hashable, Sendable {
    case inProgress(JourneyState)
    /// The associated value is nil if an older release ended the session without storing the reason.
    case over(Journey.Ending?)

    package init(_ journey: Journey) {
        self = journey.state == .sessionEnded ? .over(journey.endedBy) : .inProgress(journey.state)
    }

    fileprivate var text: String {
        switch self {
        case .inProgress(let state): state.rawValue
        case .over(let ending): ending?.rawValue ?? "ended"
        }
    }
}

package struct RefoldChange: Hashable, Sendable {
    package var old: String
    package var new: String

    package init(from old: String, to new: String) {
        self.old = old
        self.new = new
    }
}

/// The settings with which a correction folds events.
package enum CorrectedSettings: Hashable, Sendable {
    /// The settings in force now: the newest entry of the settings history.
    case current
    /// The settings stored with each event. This undoes earlier corrections.
    case stored
    /// A version from the settings history, or a version stored with an event.
    case version(String)

    /// Parses `current`, `stored` or a version. No version equals one of these words, because versions are hexadecimal.
    package init(_ text: String) {
        self =
            switch text {
            case "current": .current
            case "stored": .stored
            default: .version(text)
            }
    }

    package var text: String {
        switch self {
        case .current: "current"
        case .stored: "stored"
        case .version(let version): version
        }
    }
}

/// An operator's order to fold events again with other settings, because the events were received while wrong settings
/// were in force. The events keep their stored settings version.
package struct CorrectionOrder: Hashable, Sendable {
    /// The events received from `since` (inclusive) to `until` (exclusive) are corrected. If `until` is nil, the time
    /// span ends when the correction begins.
    package var since: Moment
    package var until: Moment?
    package var settings: CorrectedSettings
    /// If set, only events that were stored with this settings version are corrected.
    package var insteadOf: String?

    package init(since: Moment, until: Moment? = nil, settings: CorrectedSettings, insteadOf: String? = nil) {
        self.since = since
        self.until = until
        self.settings = settings
        self.insteadOf = insteadOf
    }
}

/// A recorded correction of settings.
package struct SettingsCorrection: Hashable, Sendable {
    package var id: Int64
    package var at: Moment
    package var since: Moment
    package var until: Moment
    /// The settings version for folding the events. Nil if each event is folded with its stored version.
    package var version: String?
    package var insteadOf: String?
    package var note: SettingsChangeNote
    /// When all drivers were refolded; nil until then.
    package var finishedAt: Moment?

    package init(
        id: Int64, at: Moment, since: Moment, until: Moment, version: String?, insteadOf: String?,
        note: SettingsChangeNote, finishedAt: Moment?
    ) {
        (self.id, self.at, self.since, self.until) = (id, at, since, until)
        (self.version, self.insteadOf, self.note, self.finishedAt) = (version, insteadOf, note, finishedAt)
    }
}

package enum CorrectionOutcome: Hashable, Sendable {
    /// `continues` is true if an unfinished correction with the same times and settings existed. That correction is
    /// continued, and no new one is recorded.
    case begun(SettingsCorrection, continues: Bool)
    /// Neither the settings history nor an event has these settings.
    case unknownSettings(String)
}

/// The port that records corrections of settings. `JourneyRefolder` refolds the drivers of a recorded correction.
package protocol SettingsCorrecting: JourneyRefolder {
    func begin(
        _ order: CorrectionOrder, note: SettingsChangeNote, at now: Moment
    ) async throws(StoreFailure) -> CorrectionOutcome

    /// Records that all drivers were refolded.
    func finish(correction: Int64, at now: Moment) async throws(StoreFailure)

    /// Returns the recorded corrections, newest first.
    func settingsCorrections(limit: Int) async throws(StoreFailure) -> [SettingsCorrection]
}

extension JourneyRefolder {
    /// Calls `refold` repeatedly. Before each call, waits for up to a tenth of a second while a request waits for the
    /// writer.
    ///
    /// Returns when all drivers are done, when a driver could not be refolded, or after `timeLimit`. The result has the
    /// sums of all counts.
    package func refold(
        _ request: RefoldRequest, within timeLimit: Duration
    ) async throws(StoreFailure) -> RefoldPart {
        let end = ContinuousClock.now + timeLimit
        var sum = RefoldPart(next: request.after, counts: RefoldCounts())
        while let next = sum.next, sum.failure == nil, .now < end {
            await RefoldService.writerWait.wait { writesWaiting }
            if Task.isCancelled { throw .cancelled }
            var request = request
            request.after = next
            let part = try await refold(request)
            sum.counts += part.counts
            (sum.next, sum.failure) = (part.next, part.failure)
        }
        return sum
    }
}
