// `EventStore` on SQLite. Passes writes to the writer, and runs reads on the read connections. Writer, WriterConnection
// and EventAppending implement the guarantees of the protocol.

package import CoreMetrics
package import Engine
import GRDB
package import Identity
package import JourneyModel
package import RateLimiting
import SharedTables

package final class SQLiteEventStore: EventStore {
    private let pool: DatabasePool
    let writer: Writer
    let pace: RefoldPace

    /// Opens or creates the database at `path` and migrates it. The folder must exist.
    ///
    /// - Parameters:
    ///   - nowMilliseconds: the time recorded with the migrations that run.
    ///   - waitingMax: maximum number of requests that wait for the writer. Further requests fail with `.unavailable`.
    ///     If nil, the maximum is `Writer.waitingMax`.
    ///   - digests: computes the keyed hashes by which deleted drivers are recognized. May be nil if no driver is ever
    ///     deleted from the database.
    ///   - charging: counts the refolds of late events against the rate limits. If nil, refolds are not counted.
    ///   - report: called with the progress of migration 26, which may take minutes in a database with events.
    /// - Throws: the errors of `DatabaseOpening.open`.
    package convenience init(
        path: String, nowMilliseconds: Int64, waitingMax: Int? = nil, digests: KeyedHashes? = nil,
        charging: (any RefoldCharging)? = nil,
        metrics: any MetricsFactory = NOOPMetricsHandler.instance, report: (RebuildReport) -> Void = { _ in }
    ) throws {
        let pool = try DatabaseOpening.open(path: path, nowMilliseconds: nowMilliseconds, report: report)
        try self.init(
            pool: pool, waitingMax: waitingMax ?? Writer.waitingMax, digests: digests, charging: charging,
            metrics: metrics)
        writer.loadKeys()
    }

    /// Opens an existing database that has this binary's schema. A server may have the database open too.
    ///
    /// - Throws: `RecordsUnreadable`, `MigrationRefusal`, `DurabilityNotGranted`, or SQLite's error.
    package convenience init(existing path: String, digests: KeyedHashes?) throws {
        try self.init(pool: try DatabaseOpening.openExisting(path: path), digests: digests)
    }

    init(
        pool: DatabasePool, waitingMax: Int = Writer.waitingMax, digests: KeyedHashes? = nil,
        checkpoints: Checkpointer.Pace = Checkpointer.Pace(), timeSlice: Duration = WriterConnection.timeSlice,
        charging: (any RefoldCharging)? = nil, pace: RefoldPace = RefoldPace(), newestKeys: NewestKeys = NewestKeys(),
        metrics: any MetricsFactory = NOOPMetricsHandler.instance
    ) throws {
        self.pool = pool
        self.pace = pace
        writer = try Writer(
            pool: pool, waitingMax: waitingMax, digests: digests, checkpoints: checkpoints, timeSlice: timeSlice,
            charging: charging, pace: pace, newestKeys: newestKeys, metrics: metrics)
    }

    // MARK: Writing

    package nonisolated(nonsending) func append(_ request: consuming AppendRequest) async -> EventOutcome {
        let prepared = PreparedAppend(request)
        return await withUnsafeContinuation { continuation in
            writer.add(.append(prepared, continuation))
        }
    }

    package nonisolated(nonsending) func append(_ requests: [AppendRequest]) async -> [EventOutcome] {
        guard !requests.isEmpty else { return [] }
        let prepared = requests.map(PreparedAppend.init)
        return await withUnsafeContinuation { continuation in
            writer.add(.appendMany(prepared, after: [], continuation))
        }
    }

    package func register(_ registration: SessionRegistration) async throws(StoreFailure) -> RegistrationOutcome {
        try await withCheckedContinuation { continuation in
            writer.add(.register(registration, continuation))
        }.get()
    }

    /// Runs one transaction of ordinary SQL.
    ///
    /// - Parameters:
    ///   - purgesWAL: whether the data that the transaction removes must be gone from the WAL too. Normally the data is
    ///     gone when the function returns. If a read prevents the truncation of the WAL, the data is gone soon after
    ///     the read ends.
    ///   - keepsDriverCache: whether the writer can keep its cache of drivers' rows, because the transaction does not
    ///     change these rows.
    func change<Outcome: Sendable>(
        purgesWAL: Bool = false, keepsDriverCache: Bool = false,
        _ change: @escaping @Sendable (Database) throws -> Outcome
    ) async throws(StoreFailure) -> Outcome {
        try await self.change(
            effects: { _ in ChangeEffects(purgesWAL: purgesWAL, keepsDriverCache: keepsDriverCache) }, change)
    }

    /// Runs one transaction of ordinary SQL. `effects` computes from the transaction's outcome whether to truncate the
    /// WAL and which caches stay valid. If `isPaced` is true, the transaction is a piece of a deletion and waits for
    /// its turn (RefoldPace).
    func change<Outcome: Sendable>(
        isPaced: Bool = false, effects: @escaping @Sendable (Outcome) -> ChangeEffects,
        _ change: @escaping @Sendable (Database) throws -> Outcome
    ) async throws(StoreFailure) -> Outcome {
        let result: Result<Outcome, StoreFailure> = await withCheckedContinuation { continuation in
            writer.add(.change(PendingChange(isPaced: isPaced, effects: effects, change, resuming: continuation)))
        }
        return try result.get()
    }

    /// Copies the WAL into the database file while the writer continues. The writer then has little to copy when it
    /// truncates the WAL.
    func copyWAL() async { await writer.copyWAL() }

    var path: String { pool.path }

    /// The number of requests that wait for the writer.
    package var writesWaiting: Int { writer.requestsWaiting }

    /// Makes a test write, and returns when it is on disk. If the disk has too little free space, throws `.unavailable`
    /// without a test write. The test write would prove nothing: the WAL may still have room for a small write.
    package func checkWritable() async throws(StoreFailure) {
        guard FreeSpace.bytes(besideFile: pool.path) ?? .max >= FreeSpace.bytesMin else {
            throw .unavailable("the disk is full")
        }
        try await withCheckedContinuation { continuation in
            writer.add(.probe(continuation))
        }.get()
    }

    /// Refuses new work, finishes the work in the queue, and closes the file.
    package func close() async {
        await writer.close()
        try? pool.close()
    }

    // MARK: Reading

    /// Looks the event up on a read connection, so that many repeated events do not fill the writer's queue. Finds
    /// every event that was acknowledged before the call. If idempotency keys are missing in memory, the writer first
    /// loads them.
    ///
    /// Waits for the refold of a late event, but not for a refold with any other cause. During a refold with another
    /// cause, a repeat gets the stored outcome, as in `EventAppending`.
    package func lookUp(
        _ submission: EventSubmission, of driver: DriverID
    ) async throws(StoreFailure) -> EventOutcome? {
        try await lookUp([submission], of: driver)[0]
    }

    package func lookUp(
        _ submissions: [EventSubmission], of driver: DriverID
    ) async throws(StoreFailure) -> [EventOutcome?] {
        let asked = submissions.map { (submission: $0, digest: PreparedAppend.digest(of: $0)) }
        let newest = writer.newestKeys
        while true {
            let removalCount = newest.removalCount
            let (lastNumber, outcomes) = try await readOutsideRefold(of: driver, ofLateEvent: true) { db in
                // This process puts a key into memory before it commits the key's event. Memory therefore has the keys
                // of all events that this process stored before the snapshot. Keys of another process's events may be
                // missing.
                let lastNumber = try StoredEvents.lastNumber(db)
                guard newest.lastNumber >= lastNumber else { return (lastNumber, [EventOutcome?]?.none) }
                return (
                    lastNumber,
                    try asked.map {
                        try StoredEvents.outcome(of: $0.submission, digest: $0.digest, driver: driver, newest, db)
                    }
                )
            }
            if newest.removalCount != removalCount { continue }
            if let outcomes { return outcomes }
            // Keys are missing in memory. Either the server has just started, or another process has stored events.
            await withCheckedContinuation { continuation in writer.loadKeys { continuation.resume() } }
            guard newest.lastNumber >= lastNumber else { throw .unavailable("idempotency keys could not be read") }
        }
    }

    /// Returns the number of events of all drivers.
    package func eventCount() async throws(StoreFailure) -> Int {
        try await read { (db: Database) in try Int.fetchOne(db, sql: "SELECT count(*) FROM event") ?? 0 }
    }

    /// Returns the first `limit` events of a driver, in the contract's order.
    package func timeline(of driver: DriverID, limit: Int = 10_000) async throws(StoreFailure) -> [TimelineEntry] {
        try await readOutsideRefold(of: driver) { db in try StoredEvents.timeline(of: driver, limit: limit, db) }
    }

    /// Runs `value` on a read connection. Throws `.cancelled` as soon as the calling task is cancelled.
    ///
    /// Does not use GRDB's async `read`, for two reasons. A cancelled call of `read` still waits for a free connection.
    /// The cancellation may also interrupt another read on the connection.
    func read<Value: Sendable>(
        _ value: @escaping @Sendable (Database) throws -> Value
    ) async throws(StoreFailure) -> Value {
        let wait = ReadWaiter<Value>()
        let result = await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                guard wait.begin(continuation) else { return }
                pool.asyncRead { db in
                    // The cancelled caller no longer waits, so this read is skipped.
                    if wait.isOver { return }
                    do {
                        wait.end(.success(try value(db.get())))
                    } catch {
                        wait.end(.failure(.unavailable("\(SQLiteError(error))")))
                    }
                }
            }
        } onCancel: {
            wait.end(.failure(.cancelled))
        }
        return try result.get()
    }
}
