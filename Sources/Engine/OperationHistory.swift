// Counts of events, responses and durations over time, for the operator page. One task reads the existing counters
// every ten seconds. Once a minute, it adds their growth to the database.

package import JourneyModel
package import Logging

/// The counts of one time step, by series. Series have fixed names, for example `event.applied`, `source.web`,
/// `status.429` and `duration.2500`.
///
/// The `duration` series are the buckets of a histogram, each named after its upper bound in µs. A response counts in
/// only one bucket, the lowest whose bound it does not exceed. `duration.2500` therefore has no response of more than
/// 2,500 µs. `duration.inf` counts the responses above the highest bound.
package struct HistoryStep: Hashable, Sendable {
    package var beginsAt: Moment
    package var counts: [String: Int]

    package init(beginsAt: Moment, counts: [String: Int]) {
        self.beginsAt = beginsAt
        self.counts = counts
    }
}

/// The port that stores time steps.
package protocol HistoryStore: Sendable {
    /// Adds these counts to the stored counts, which are sums over all processes on the database. Each element of
    /// `minutes` begins at a whole minute.
    func add(_ minutes: [HistoryStep], at now: Moment) async throws(StoreFailure)

    /// Returns the time steps since `start`, oldest first. Each step is `range.stepSeconds` long. Steps without a count
    /// are omitted.
    func history(since start: Moment, in range: HistoryRange) async throws(StoreFailure) -> [HistoryStep]
}

/// The periods that the operator page can show.
package enum HistoryRange: String, CaseIterable, Sendable {
    case fifteenMinutes = "15m"
    case hour = "1h"
    case sixHours = "6h"
    case day = "24h"
    case week = "7d"
    case month = "30d"

    package var seconds: Int64 {
        switch self {
        case .fifteenMinutes: 900
        case .hour: 3600
        case .sixHours: 6 * 3600
        case .day: 24 * 3600
        case .week: 7 * 24 * 3600
        case .month: 30 * 24 * 3600
        }
    }

    /// The length of one time step on the operator page, in seconds. A range has at most 120 time steps.
    package var stepSeconds: Int64 {
        switch self {
        case .fifteenMinutes, .hour: 60
        case .sixHours: 300
        case .day: 900
        case .week: 7200
        case .month: 6 * 3600
        }
    }

    /// Returns the time at which the first displayed step begins.
    package func start(at now: Moment) -> Moment {
        let steps = seconds / stepSeconds
        return now.floored(toSeconds: stepSeconds).advanced(byMilliseconds: -(steps - 1) * stepSeconds * 1000)
    }
}

package actor OperationHistory {
    static let collectSeconds: Int64 = 10
    static let stepSeconds: Int64 = 60
    /// The maximum number of minutes whose counts are kept in memory while the database accepts no writes. The oldest
    /// minutes are dropped first.
    static let pendingMax = 120

    private let store: any HistoryStore
    /// Returns the total of each series since the start of the process.
    private let totals: @Sendable () -> [String: Int]
    private let clock: @Sendable () -> Moment
    private let logger: Logger
    private var last: [String: Int] = [:]
    /// The counts that are not stored yet, by the time at which their minute begins.
    private var pending: [Moment: [String: Int]] = [:]
    /// Incremented when a flush begins and when it ends, so that `steps` can notice a flush between its reads.
    private var flushes = 0
    private var hasFailed = false

    package init(
        store: any HistoryStore, totals: @escaping @Sendable () -> [String: Int],
        clock: @escaping @Sendable () -> Moment, logger: Logger
    ) {
        self.store = store
        self.totals = totals
        self.clock = clock
        self.logger = logger
    }

    /// Runs until the task is cancelled, then stores the remaining counts.
    package func run() async {
        var minute = clock().floored(toSeconds: Self.stepSeconds)
        while !Task.isCancelled {
            // Wake up at the end of each minute, even if `collectSeconds` have not passed. Otherwise some growth of the
            // counters would be added to the wrong minute.
            let end = minute.advanced(byMilliseconds: Self.stepSeconds * 1000)
            let left = end.millisecondsSinceEpoch - clock().millisecondsSinceEpoch
            try? await Task.sleep(for: .milliseconds(min(max(left, 0), Self.collectSeconds * 1000)))
            collect(into: minute)
            let now = clock().floored(toSeconds: Self.stepSeconds)
            guard now != minute, !Task.isCancelled else { continue }
            minute = now
            await flush()
        }
        collect(into: minute)
        await flush()
    }

    /// Returns the time steps of a range: the stored counts plus the counts that are not stored yet.
    package func steps(_ range: HistoryRange, at now: Moment) async throws(StoreFailure) -> [HistoryStep] {
        collect(into: clock().floored(toSeconds: Self.stepSeconds))
        let start = range.start(at: now)
        var stored: [HistoryStep] = []
        var waiting: [Moment: [String: Int]] = [:]
        // A flush moves counts from `pending` to the store. If a flush began or ended between the two reads, counts may
        // be missing or included twice. Both reads are then repeated.
        var seen: Int
        repeat {
            seen = flushes
            waiting = pending
            stored = try await store.history(since: start, in: range)
        } while seen != flushes
        var steps: [Moment: [String: Int]] = [:]
        for step in stored { steps[step.beginsAt] = step.counts }
        for (minute, counts) in waiting where minute >= start {
            let begin = minute.floored(toSeconds: range.stepSeconds)
            steps[begin, default: [:]].merge(counts, uniquingKeysWith: +)
        }
        return steps.map { HistoryStep(beginsAt: $0, counts: $1) }.sorted { $0.beginsAt < $1.beginsAt }
    }

    private func collect(into minute: Moment) {
        let now = totals()
        for (series, total) in now {
            let growth = total - (last[series] ?? 0)
            if growth > 0 { pending[minute, default: [:]][series, default: 0] += growth }
        }
        last = now
    }

    /// Stores the pending minutes.
    package func flush() async {
        let taken = pending
        guard !taken.isEmpty else { return }
        flushes += 1
        defer { flushes += 1 }
        do throws(StoreFailure) {
            try await store.add(taken.map { HistoryStep(beginsAt: $0, counts: $1) }, at: clock())
            hasFailed = false
            // Counts that were added during the write stay pending for the next flush.
            for (minute, counts) in taken {
                let left = (pending[minute] ?? [:]).compactMap { series, count -> (String, Int)? in
                    let rest = count - (counts[series] ?? 0)
                    return rest > 0 ? (series, rest) : nil
                }
                pending[minute] = left.isEmpty ? nil : Dictionary(uniqueKeysWithValues: left)
            }
        } catch {
            if !hasFailed { logger.error("storing request and event counts failed", metadata: ["failure": "\(error)"]) }
            hasFailed = true
            let dropped = pending.keys.sorted().dropLast(Self.pendingMax)
            for minute in dropped { pending[minute] = nil }
        }
    }
}
