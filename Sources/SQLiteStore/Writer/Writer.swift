// The only writer of this process. Commits the waiting work in groups of up to `groupMax` requests. Work that arrives
// during a commit is committed in a following group. No timer delays a commit.

import CoreMetrics
import Dispatch
import Engine
import GRDB
import GRDBSQLite
import Identity
import RateLimiting

/// @unchecked, because `connection`, `parked`, `isToWake`, `isToWakeForRefolds` and `lastCommit` are used only in
/// closures on the pool's writer queue, which is serial. Everything else is Sendable.
final class Writer: @unchecked Sendable {
    /// Maximum number of waiting requests. A further request fails at once. At ten thousand events a second, the last
    /// request in a full queue waits more than a second and a half.
    static let waitingMax = 16_384
    /// Maximum number of requests per transaction. It is large, so that many requests share the cost of one sync. It is
    /// not larger, because no request gets its response before the whole transaction is committed.
    static let groupMax = 512
    /// Maximum number of pieces of work in `parked`. Beyond this number, work is parked only if a part of it is already
    /// stored (`WriterWork.hasStored`), and fails otherwise. The number is limited because the writer tries every
    /// parked piece again each time that refolds continue.
    static let parkedMax = 1_000

    private let pool: DatabasePool
    let newestKeys: NewestKeys
    private let metrics: StoreMetrics
    private let queue: WriteQueue<WriterWork>
    private let checkpointer: Checkpointer
    private var connection: WriterConnection?
    /// Work that waits until refolds may continue, in order of arrival. When refolds continue, the writer takes this
    /// work before the work in the queue. The first piece of this work thus gets all of `RefoldBudget.rowsLeft`.
    ///
    /// While the refold of a late event is in progress, all events of its driver are parked, so no event overtakes an
    /// earlier one. During any other refold, events after the driver's head overtake the driver's parked late events.
    private var parked: [WriterWork] = []
    private var isToWakeForRefolds = false
    private var isToWake = false
    /// The time of the last transaction. If `truncateLog` has failed since then, the time of its last failed attempt.
    /// Nil before the first transaction, and after `truncateLog` has truncated the WAL.
    private var lastCommit: ContinuousClock.Instant?

    /// - Parameter digests: computes the keyed hashes by which deleted drivers are recognized. May be nil if no driver
    ///   is ever deleted from the database.
    init(
        pool: DatabasePool, waitingMax: Int, digests: KeyedHashes?,
        checkpoints: Checkpointer.Pace = Checkpointer.Pace(), timeSlice: Duration = WriterConnection.timeSlice,
        charging: (any RefoldCharging)? = nil, pace: RefoldPace = RefoldPace(),
        newestKeys: NewestKeys = NewestKeys(), metrics: any MetricsFactory = NOOPMetricsHandler.instance
    ) throws {
        self.pool = pool
        self.newestKeys = newestKeys
        self.metrics = StoreMetrics(metrics)
        queue = WriteQueue(requestsMax: waitingMax)
        checkpointer = try Checkpointer(path: pool.path, pace: checkpoints)
        try pool.writeWithoutTransaction { db in
            let connection = try WriterConnection(
                on: db.openConnection, newestKeys: newestKeys, digests: digests, checkpointer: checkpointer,
                timeSlice: timeSlice, charging: charging, pace: pace)
            self.connection = connection
            if connection.log.needsTruncation { wakeToTruncate() }
        }
    }

    /// The number of requests in the queue.
    var requestsWaiting: Int { queue.requestsWaiting }

    /// Adds work to the queue. If the queue is full or closed, the work fails at once.
    func add(_ work: WriterWork) {
        switch queue.add(work) {
        case .joinsLine: break
        case .wakesWriter: pool.asyncWriteWithoutTransaction { [self] db in workAll(db) }
        case .refused(.full): work.fail(.unavailable("too many writes are waiting"))
        case .refused(.closed): work.fail(.unavailable("the store is closed"))
        }
    }

    private func workAll(_ db: Database) {
        while true {
            let group = takeGroup()
            guard !group.isEmpty else { return wakeForRefolds() }
            guard let connection else {
                for work in group { work.fail(.unavailable("the store is closed")) }
                continue
            }
            let start = ContinuousClock.now
            let result = connection.run(group, db)
            queue.putBack(result.leftover)
            park(result.waiting)
            lastCommit = .now
            metrics.record(
                requests: Self.requestCount(group) - Self.requestCount(result.leftover)
                    - Self.requestCount(result.waiting),
                took: ContinuousClock.now - start, isCommitted: result.isCommitted)
            if connection.log.needsTruncation { wakeToTruncate() }
            connection.log.copyRest()
        }
    }

    private static func requestCount(_ work: [WriterWork]) -> Int { work.reduce(0) { $0 + $1.requestCount } }

    private func takeGroup() -> [WriterWork] {
        let group = queue.take(requestsMax: Self.groupMax)
        guard !parked.isEmpty, let connection, .now >= connection.nextPiece else { return group }
        defer { parked = [] }
        return parked + group
    }

    /// Keeps work that waits for refolds. If `parkedMax` pieces already wait, fails the work unless a part of it is
    /// already stored.
    ///
    /// Only deletions and appended events can be stored in part. An event that is stored in part is a late event whose
    /// refold is not complete. A driver has at most one, because the driver's next event is stored only after this
    /// refold.
    private func park(_ waiting: [WriterWork]) {
        for work in waiting {
            if parked.count < Self.parkedMax || work.hasStored {
                parked.append(work)
            } else {
                work.fail(.unavailable("too many requests wait for a journey to be refolded"))
            }
        }
    }

    /// Wakes the writer when refolds may continue. Called when the writer has no other work. At most one wake-up is
    /// pending at a time.
    private func wakeForRefolds() {
        guard let connection, !parked.isEmpty, !isToWakeForRefolds else { return }
        isToWakeForRefolds = true
        let (seconds, attoseconds) = max(connection.nextPiece - .now, .zero).components
        let nanoseconds = Int(seconds) * 1_000_000_000 + Int(attoseconds / 1_000_000_000)
        DispatchQueue.global().asyncAfter(deadline: .now() + .nanoseconds(nanoseconds)) { [self] in
            pool.asyncWriteWithoutTransaction { [self] db in
                isToWakeForRefolds = false
                workAll(db)
            }
        }
    }

    /// Tries to truncate the WAL every second until this succeeds. Called when a truncation is pending, because a
    /// reader has prevented it or another process has not done it. At most one attempt is pending at a time.
    private func wakeToTruncate() {
        guard !isToWake else { return }
        isToWake = true
        DispatchQueue.global().asyncAfter(deadline: .now() + .seconds(1)) { [weak self] in
            guard let self else { return }
            pool.asyncWriteWithoutTransaction { [self] _ in
                isToWake = false
                guard let log = connection?.log, log.needsTruncation else { return }
                log.truncate()
                if log.needsTruncation { wakeToTruncate() }
            }
        }
    }

    /// Updates `newestKeys`, after a start or when another process has stored events.
    func loadKeys(_ isDone: @escaping @Sendable () -> Void = {}) {
        pool.asyncWriteWithoutTransaction { [self] _ in
            connection?.loadKeys()
            isDone()
        }
    }

    func copyWAL() async { await checkpointer.copyAll() }

    /// Truncates the WAL if a truncation is pending. Returns whether no truncation is pending after that.
    func finishRemoval() async -> Bool {
        await withCheckedContinuation { (continuation: CheckedContinuation<Bool, Never>) in
            pool.asyncWriteWithoutTransaction { [self] _ in
                guard let log = connection?.log else { return continuation.resume(returning: false) }
                if log.needsTruncation { log.truncateAwaitingReaders() }
                continuation.resume(returning: !log.needsTruncation)
            }
        }
    }

    /// Truncates the WAL if something was written since it was last truncated. Does nothing if the last write was less
    /// than `quiet` ago, or if a reader needs the WAL.
    func truncateLog(quietFor quiet: Duration) async {
        await withCheckedContinuation { (continuation: CheckedContinuation<Void, Never>) in
            pool.asyncWriteWithoutTransaction { [self] _ in
                defer { continuation.resume() }
                guard let connection, let lastCommit, .now - lastCommit >= quiet else { return }
                // If a reader prevents the truncation, the quiet period starts again.
                self.lastCommit = connection.log.truncateUnlessRead() ? nil : .now
            }
        }
    }

    /// Refuses new work, finishes the work in the queue, and releases the statements. Fails the work that waits for
    /// refolds. After the next start, refolds and deletions that have begun are completed. May be called again.
    func close() async {
        await withCheckedContinuation { continuation in
            queue.close { continuation.resume() }
        }
        await withCheckedContinuation { continuation in
            pool.asyncWriteWithoutTransaction { [self] _ in
                for work in parked { work.fail(.unavailable("the store is closed")) }
                parked = []
                // Copies the WAL into the database file, because an operator may copy only this file after the server
                // has stopped. The read connections are closed later, but cannot copy the WAL.
                _ = connection?.log.truncateUnlessRead()
                connection = nil
                continuation.resume()
            }
        }
        checkpointer.close()
    }
}
