// The one writer: takes all waiting work, commits it together, and then takes what arrived meanwhile. No timer; the
// size of a group is what arrived during the last commit.

import CoreMetrics
import Dispatch
import Engine
import GRDB
import GRDBSQLite
import Identity

/// @unchecked: `connection`, `isToWake` and `lastCommit` are used in closures on the pool's writer queue only,
/// which is serial; everything else is Sendable.
final class Writer: @unchecked Sendable {
    /// Maximum number of waiting requests; beyond this a request is better rejected at once: at ten thousand events
    /// a second, the last one in the queue waits more than a second and a half.
    static let waitingMax = 16_384
    /// Per transaction: enough to make a sync cheap, few enough that the first of them does not wait long for the
    /// last.
    static let groupMax = 512

    private let pool: DatabasePool
    private let metrics: WriterMetrics
    private let queue: WriteQueue<WriterWork>
    private let checkpointer: Checkpointer
    private var connection: WriterConnection?
    private var isToWake = false
    /// The last commit since the WAL was truncated; nil: it is truncated.
    private var lastCommit: ContinuousClock.Instant?

    /// `digests` nil: no driver is ever erased.
    init(
        pool: DatabasePool, waitingMax: Int, digests: KeyedHashes?,
        checkpoints: Checkpointer.Pace = Checkpointer.Pace(), turnLength: Duration = WriterConnection.turnLength,
        metrics: any MetricsFactory = NOOPMetricsHandler.instance
    ) throws {
        self.pool = pool
        self.metrics = WriterMetrics(metrics)
        queue = WriteQueue(requestsMax: waitingMax)
        checkpointer = try Checkpointer(path: pool.path, pace: checkpoints)
        try pool.writeWithoutTransaction { db in
            guard let handle = db.sqliteConnection else {
                throw SQLiteError(extendedCode: SQLITE_MISUSE, message: "the database is closed")
            }
            let connection = try WriterConnection(
                on: handle, digests: digests, checkpointer: checkpointer, turnLength: turnLength)
            self.connection = connection
            if connection.log.owesTruncation { wakeToTruncate() }
        }
    }

    /// Requests in the queue.
    var requestsWaiting: Int { queue.requestsWaiting }

    /// Enqueues work, which gets its result later. First in, first out.
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
            let group = queue.take(requestsMax: Self.groupMax)
            guard !group.isEmpty else { return }
            guard let connection else {
                for work in group { work.fail(.unavailable("the store is closed")) }
                continue
            }
            let start = ContinuousClock.now
            let turn = connection.run(group, db)
            queue.putBack(turn.rest)
            lastCommit = .now
            metrics.record(
                requests: group.reduce(0) { $0 + $1.requestCount } - turn.rest.reduce(0) { $0 + $1.requestCount },
                took: ContinuousClock.now - start, isCommitted: turn.isCommitted)
            if connection.log.owesTruncation { wakeToTruncate() }
            connection.log.copyRest()
        }
    }

    /// A reader prevented a truncation of the WAL: retries in a second, whether or not anything is written until
    /// then. Only one such wake-up is pending at a time.
    private func wakeToTruncate() {
        guard !isToWake else { return }
        isToWake = true
        DispatchQueue.global().asyncAfter(deadline: .now() + .seconds(1)) { [weak self] in
            guard let self else { return }
            pool.asyncWriteWithoutTransaction { [self] _ in
                isToWake = false
                guard let log = connection?.log, log.owesTruncation else { return }
                log.truncate()
                if log.owesTruncation { wakeToTruncate() }
            }
        }
    }

    /// Truncates the WAL if that is pending. Returns whether nothing is pending any more.
    func finishRemoval() async -> Bool {
        await withCheckedContinuation { (continuation: CheckedContinuation<Bool, Never>) in
            pool.asyncWriteWithoutTransaction { [self] _ in
                guard let log = connection?.log else { return continuation.resume(returning: false) }
                if log.owesTruncation { log.truncateWithPatience() }
                continuation.resume(returning: !log.owesTruncation)
            }
        }
    }

    /// Truncates the WAL, if nothing was written for that long and something was since the last truncation, and no
    /// reader needs it.
    func truncateLog(quietFor quiet: Duration) async {
        await withCheckedContinuation { (continuation: CheckedContinuation<Void, Never>) in
            pool.asyncWriteWithoutTransaction { [self] _ in
                defer { continuation.resume() }
                guard let connection, let lastCommit, .now - lastCommit >= quiet else { return }
                // A reader is in the way: not again before the next quiet period.
                self.lastCommit = connection.log.truncateUnlessRead() ? nil : .now
            }
        }
    }

    /// Refuses new work, finishes what waits, releases the statements. May be called again.
    func close() async {
        await withCheckedContinuation { continuation in
            queue.close { continuation.resume() }
        }
        await withCheckedContinuation { continuation in
            pool.asyncWriteWithoutTransaction { [self] _ in
                // The read connections are closed last, and none of them may do it: a copy of the file alone, which
                // is all that is visible after a server was stopped, would lack the content of the WAL.
                _ = connection?.log.truncateUnlessRead()
                connection = nil
                continuation.resume()
            }
        }
        checkpointer.close()
    }
}
