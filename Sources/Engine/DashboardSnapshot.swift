// The operator page's numbers about all drivers: the drivers in each state, and the events of each minute in the last
// hour. All viewers of the page share these numbers.
//
// The store is queried only while an operator has the page open. Each query counts only the events that were stored
// after the previous query.

package import JourneyModel

/// The port of the dashboard's data. The counts leave out the drivers of `dwell simulate` and their events.
package protocol OperatorReader: Sendable {
    /// Returns the number of drivers in each state; a state without drivers has no entry. After a deadline, a driver
    /// counts in the old state until the server stores the expiry.
    func driverCounts() async throws(StoreFailure) -> [JourneyState: Int]

    /// Counts the events that were stored after the event with the id `id`. The caller passes the `EventTallies.last`
    /// of the previous call. If `id` is nil, counts the events that the server received since `start`.
    ///
    /// If there are more events than one call may examine, `EventTallies.isWhole` is false.
    func tallies(after id: Int64?, since start: Moment) async throws(StoreFailure) -> EventTallies

    /// Returns the size of the database on disk, in bytes. On SQLite this includes the WAL; on PostgreSQL it does not.
    func storageBytes() async throws(StoreFailure) -> Int64

    /// Returns at most `limit` settings versions of stored events, sorted by the time of their first use, latest first.
    func settingsVersions(limit: Int) async throws(StoreFailure) -> [SettingsVersionUse]

    /// Returns at most `limit` changes of the settings and `limit` reloads.
    func settingsHistory(limit: Int) async throws(StoreFailure) -> SettingsHistory

    /// Returns one session of any driver with its first `limit` events; nil when the session does not exist.
    func operatorTimeline(of sessionID: String, limit: Int) async throws(StoreFailure) -> OperatorTimeline?
}

/// The number of events with the same minute, name, verdict and state.
package struct EventTally: Hashable, Sendable {
    /// The minute in which the server received the events, as minutes since 1970.
    package var minute: Int64
    /// The canonical name. All diagnostic events have the name `diagnostic` here, because clients choose their names
    /// freely.
    package var name: String
    package var verdict: Verdict
    /// The driver's state right after the event.
    package var state: JourneyState
    package var count: Int

    package init(minute: Int64, name: String, verdict: Verdict, state: JourneyState, count: Int) {
        self.minute = minute
        self.name = name
        self.verdict = verdict
        self.state = state
        self.count = count
    }
}

package struct EventTallies: Hashable, Sendable {
    /// The row number, or on PostgreSQL the feed position, of the examined event that was stored last.
    package var last: Int64
    package var tallies: [EventTally]
    /// False if there were more events than one query may examine. In that case, the events that were stored first are
    /// not counted.
    package var isWhole: Bool

    package init(last: Int64, tallies: [EventTally], isWhole: Bool) {
        self.last = last
        self.tallies = tallies
        self.isWhole = isWhole
    }
}

package struct SettingsVersionUse: Hashable, Sendable {
    package var version: String
    /// The settings of this version as JSON, as `GET /native/config` returned them.
    package var settings: String
    package var firstUsedAt: Moment

    package init(version: String, settings: String, firstUsedAt: Moment) {
        self.version = version
        self.settings = settings
        self.firstUsedAt = firstUsedAt
    }
}

package struct OperatorTimeline: Hashable, Sendable {
    package var driver: DriverID
    package var timeline: SessionTimeline

    package init(driver: DriverID, timeline: SessionTimeline) {
        self.driver = driver
        self.timeline = timeline
    }
}

/// The numbers for the operator page. The store is queried only when a caller reads them.
package actor DashboardSnapshot {
    package struct Counts: Sendable {
        package var asOf: Moment
        package var drivers: [JourneyState: Int]
        /// The counts of the last hour, including the current minute.
        package var tallies: [EventTally]
        package var isWhole: Bool
        package var storageBytes: Int64
    }

    package static let minutes: Int64 = 60
    /// How long every call returns the same snapshot.
    package static let refreshMilliseconds: Int64 = 1000

    private struct Key: Hashable {
        var minute: Int64
        var name: String
        var verdict: Verdict
        var state: JourneyState
    }

    private let reader: any OperatorReader
    private let drivers: DriverCounts
    private var last: Int64?
    private var counts: [Key: Int] = [:]
    /// The latest minute in which some events may not be counted; nil if all events are counted.
    private var incompleteMinute: Int64?
    private var cached: Counts?

    package init(reader: any OperatorReader, drivers: DriverCounts) {
        self.reader = reader
        self.drivers = drivers
    }

    package func current(at now: Moment) async throws(StoreFailure) -> Counts {
        if let cached, now < cached.asOf.advanced(byMilliseconds: Self.refreshMilliseconds), now >= cached.asOf {
            return cached
        }
        let first = Self.minute(now) - Self.minutes + 1
        // If all cached counts are more than an hour old, begin again with the events of the last hour. If `last` were
        // kept, the query would also count events that are older than an hour.
        if let cached, Self.minute(cached.asOf) < first { (last, counts, incompleteMinute) = (nil, [:], nil) }
        let before = last
        let new = try await reader.tallies(after: before, since: Moment(millisecondsSinceEpoch: first * 60_000))
        // The actor is reentrant: during the await, another call may have added these events. That call changed `last`,
        // so the events must not be added again.
        if last == before { add(new, from: first, now: Self.minute(now)) }
        let made = Counts(
            asOf: now, drivers: try await drivers.current(),
            tallies: counts.map { key, count in
                EventTally(
                    minute: key.minute, name: key.name, verdict: key.verdict, state: key.state, count: count)
            }, isWhole: incompleteMinute.map { $0 < first } ?? true, storageBytes: try await reader.storageBytes())
        cached = made
        return made
    }

    private func add(_ new: EventTallies, from first: Int64, now: Int64) {
        last = new.last
        if !new.isWhole {
            // `new` lacks some events, which were stored before the events that it counts. Up to the oldest counted
            // minute, every minute may therefore lack events. If nothing was counted, every minute up to now may lack
            // events.
            let oldest = new.tallies.map(\.minute).filter { $0 >= first }.min() ?? now
            incompleteMinute = max(incompleteMinute ?? oldest, oldest)
        }
        for tally in new.tallies {
            let key = Key(minute: tally.minute, name: tally.name, verdict: tally.verdict, state: tally.state)
            counts[key, default: 0] += tally.count
        }
        counts = counts.filter { $0.key.minute >= first }
    }

    private static func minute(_ moment: Moment) -> Int64 { moment.millisecondsSinceEpoch / 60_000 }
}
