// The waiting work, with one queue ("line") per driver. A batch takes work from the lines of many drivers. A driver's
// work is in only one batch of this instance at a time, so that the order of the calls is kept.
//
// The number of slow batches at a time is limited, so that a few drivers cannot make all others wait.

import JourneyModel
import Synchronization

/// The work of one driver in one batch, in order.
struct DriverGroup: Sendable {
    /// After this number of conflicts, a driver is locked before its row is read. Other transactions then cannot update
    /// the driver meanwhile.
    static let conflictsBeforeLock = 3

    let driver: DriverID
    var works: [Work]

    /// Whether the driver's row must be locked before it is read. Such a group has a batch of its own.
    var needsLock: Bool { works.contains { $0.mayBeSlow || $0.isAlone || $0.isInDoubt } }

    /// See `Work.isLong`.
    var isLong: Bool { works.contains(where: \.isLong) }

    /// Whether the group may be read again after its reads found a session's owner, but not the session.
    ///
    /// Another transaction may have deleted the session between the reads. On Citus, the row in `session_owner` may
    /// even remain visible for a moment after the driver was locked.
    ///
    /// If the first batch with the lock does not find the session, the batch is run once more. The second batch with
    /// the lock stores the event without opening the session.
    var mayReadAgain: Bool { works.allSatisfy { $0.conflictCount <= Self.conflictsBeforeLock } }
}

final class WorkQueue: Sendable {
    enum Refusal: Error {
        case full
        case closed
        /// The work is the check of a deadline, and would have to wait for a slow batch with work of the same driver.
        case slow
    }

    private struct Line {
        let driver: DriverID
        var works: [Work] = []
        /// Whether a batch has work of this driver.
        var isTaken = false
        /// Whether that batch is counted in `State.slowCount`.
        var isTakenSlow = false

        /// Whether the next batch with work of this line may be slow. The first work is enough to decide this: works
        /// that were put back come first, and no work has failed more often than the work before it.
        var mayBeSlow: Bool { works.first?.mayBeSlow ?? false }

        /// Removes and returns the checks of the driver's deadline that would wait for a slow batch.
        mutating func takeChecksBehindSlow() -> [Work] {
            guard mayBeSlow else { return [] }
            let rest = works.dropFirst()
            works = works.prefix(1) + rest.filter { !$0.isCheck }
            return rest.filter(\.isCheck)
        }
    }

    private struct State {
        var lines: [TextKey: Line] = [:]
        /// The drivers with waiting work, but no work in a batch. If a driver's next batch may be slow, `readySlow`
        /// contains the driver; if not, `ready` does. The driver who has waited longest comes first.
        var readySlow: [TextKey] = []
        var ready: [TextKey] = []
        /// Whether the last batch was taken from `readySlow`. If so, the next batch is taken from `ready`, unless
        /// `ready` is empty. So no driver waits forever, even with only one writer.
        var tookSlow = false
        var workCount = 0
        /// The number of batches under way that may be slow, at most `slowMax`.
        var slowCount = 0
        let slowMax: Int
        var idle: [CheckedContinuation<Void, Never>] = []
        var isClosed = false
        var whenDrained: [CheckedContinuation<Void, Never>] = []

        init(slowMax: Int) {
            self.slowMax = slowMax
        }

        var isDrained: Bool { isClosed && lines.isEmpty }

        var permitsSlow: Bool { slowCount < slowMax && !readySlow.isEmpty }

        /// Whether `takeGroups` returns any work.
        var hasReady: Bool { !ready.isEmpty || permitsSlow }

        /// Whether a batch that may be slow has work of this driver, or will get such work.
        func isSlow(_ driver: DriverID) -> Bool {
            lines[TextKey(driver.rawValue)].map { $0.isTakenSlow || $0.mayBeSlow } ?? false
        }

        mutating func makeReady(_ key: TextKey, _ line: Line) {
            if line.mayBeSlow { readySlow.append(key) } else { ready.append(key) }
        }

        mutating func takeGroups(worksMax: Int) -> [DriverGroup] {
            tookSlow = permitsSlow && (ready.isEmpty || !tookSlow)
            return tookSlow ? takeSlowGroup(worksMax: worksMax) : takeOtherGroups(worksMax: worksMax)
        }

        private mutating func takeSlowGroup(worksMax: Int) -> [DriverGroup] {
            let key = readySlow.removeFirst()
            guard var line = lines[key] else { return [] }
            let group = DriverGroup(driver: line.driver, works: Array(Self.first(of: line.works).prefix(worksMax)))
            line.isTakenSlow = true
            slowCount += 1
            take(group, of: line, at: key)
            return [group]
        }

        private mutating func takeOtherGroups(worksMax: Int) -> [DriverGroup] {
            var groups: [DriverGroup] = []
            var count = 0
            var taken = 0
            while taken < ready.count, count < worksMax {
                let key = ready[taken]
                guard let line = lines[key] else {
                    taken += 1
                    continue
                }
                let works = Self.first(of: line.works).prefix(worksMax - count)
                let group = DriverGroup(driver: line.driver, works: Array(works))
                if group.needsLock, !groups.isEmpty { break }
                take(group, of: line, at: key)
                groups.append(group)
                count += works.count
                taken += 1
                if group.needsLock { break }
            }
            ready.removeFirst(taken)
            return groups
        }

        private mutating func take(_ group: DriverGroup, of line: Line, at key: TextKey) {
            var line = line
            line.works.removeFirst(group.works.count)
            line.isTaken = true
            lines[key] = line
            workCount -= group.works.count
        }

        /// Returns the works at the start of a driver's line that may share a batch. A check of the driver's deadline
        /// never shares a batch. Until the driver's earlier events are stored, it is uncertain which deadline has
        /// passed.
        private static func first(of works: [Work]) -> ArraySlice<Work> {
            if let first = works.first, first.isCheck { return works.prefix(1) }
            return works.prefix { !$0.isCheck }
        }
    }

    private let worksMax: Int
    private let state: Mutex<State>

    /// - Parameter slowMax: the maximum number of batches at a time that may be slow (`Work.mayBeSlow`).
    init(worksMax: Int, slowMax: Int) {
        self.worksMax = worksMax
        state = Mutex(State(slowMax: slowMax))
    }

    var count: Int { state.withLock(\.workCount) }

    /// Adds all of the works, or none. If one of them is the check of a deadline and would wait for a slow batch,
    /// refuses all. `storeExpiries` waits for the checks of several drivers together, so one slow check would delay all
    /// of them.
    func add(_ works: [(driver: DriverID, work: Work)]) throws(Refusal) {
        let result = state.withLock { state -> Result<CheckedContinuation<Void, Never>?, Refusal> in
            if state.isClosed { return .failure(.closed) }
            if state.workCount + works.count > worksMax, state.workCount > 0 { return .failure(.full) }
            if works.contains(where: { $0.work.isCheck && state.isSlow($0.driver) }) { return .failure(.slow) }
            for (driver, work) in works {
                let key = TextKey(driver.rawValue)
                var line = state.lines[key] ?? Line(driver: driver)
                let isNew = line.works.isEmpty && !line.isTaken
                line.works.append(work)
                state.lines[key] = line
                if isNew { state.makeReady(key, line) }
            }
            state.workCount += works.count
            return .success(state.hasReady ? state.idle.popLast() : nil)
        }
        try result.get()?.resume()
    }

    /// Waits for work. Returns nil when the queue is closed and all work is done.
    func take(worksMax: Int) async -> [DriverGroup]? {
        while true {
            let (groups, isDrained, woken) = state.withLock {
                state -> ([DriverGroup], Bool, CheckedContinuation<Void, Never>?) in
                let groups = state.takeGroups(worksMax: worksMax)
                // Wakes another writer, so that the remaining work does not wait for this batch.
                let woken = !groups.isEmpty && state.hasReady ? state.idle.popLast() : nil
                return (groups, state.isDrained, woken)
            }
            woken?.resume()
            if !groups.isEmpty { return groups }
            if isDrained { return nil }
            await withCheckedContinuation { continuation in
                let isAwake = state.withLock { state in
                    if state.hasReady || state.isDrained { return true }
                    state.idle.append(continuation)
                    return false
                }
                if isAwake { continuation.resume() }
            }
        }
    }

    /// Makes a driver available again after its batch. The works in `undone` come before work that has arrived
    /// meanwhile.
    ///
    /// - Returns: checks of the driver's deadline, each of which would have to wait for a slow batch. They are no
    ///   longer in the queue. The caller must answer them.
    @discardableResult
    func giveBack(_ driver: DriverID, undone: [Work]) -> [Work] {
        let (woken, checks) = state.withLock { state -> ([CheckedContinuation<Void, Never>], [Work]) in
            let key = TextKey(driver.rawValue)
            guard var line = state.lines[key] else { return ([], []) }
            line.works = undone + line.works
            line.isTaken = false
            if line.isTakenSlow { state.slowCount -= 1 }
            line.isTakenSlow = false
            let checks = line.takeChecksBehindSlow()
            state.workCount += undone.count - checks.count
            if line.works.isEmpty {
                state.lines[key] = nil
            } else {
                state.lines[key] = line
                state.makeReady(key, line)
            }
            if state.isDrained {
                defer { (state.idle, state.whenDrained) = ([], []) }
                return (state.idle + state.whenDrained, checks)
            }
            return (state.hasReady ? state.idle.popLast().map { [$0] } ?? [] : [], checks)
        }
        for continuation in woken { continuation.resume() }
        return checks
    }

    /// Refuses further work. Returns when all work is done.
    func close() async {
        refuseFurther()
        await withCheckedContinuation { continuation in
            let isDrained = state.withLock { state in
                if state.isDrained { return true }
                state.whenDrained.append(continuation)
                return false
            }
            if isDrained { continuation.resume() }
        }
    }

    /// Refuses further work. When all work in the queue is done, `take` returns nil.
    func refuseFurther() {
        let woken = state.withLock { state -> [CheckedContinuation<Void, Never>] in
            state.isClosed = true
            guard state.isDrained else { return [] }
            defer { state.idle = [] }
            return state.idle
        }
        for continuation in woken { continuation.resume() }
    }
}
