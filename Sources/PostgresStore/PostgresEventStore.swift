// `EventStore` on PostgreSQL. Many instances may write at the same time (docs/decisions/postgresql.md). This file forms
// batches of waiting requests and tries failed requests again; BatchRun stores a batch.

package import CoreMetrics
package import Engine
package import Identity
package import JourneyModel
package import Logging
package import Postgres
package import RateLimiting
package import Sockets
import Synchronization

package final class PostgresEventStore: EventStore {
    /// The maximum number of waiting requests. Further requests fail with `.unavailable`.
    package static let waitingMax = 16_384
    /// The maximum number of requests in a batch.
    static let batchMax = 256
    /// The time limit of a request, in seconds. Within this time, the store tries again after a lost connection or a
    /// conflict with another instance.
    package static let requestSeconds = 10
    /// The number of a driver's events in the first read for a late event.
    package static let tailBegin: Int64 = 64
    /// The maximum number of a driver's events in memory during a fold, about 12 MB. If there are more events, a
    /// refold, trial or check reads them in parts of this length.
    package static let tailMax: Int64 = 4_096
    /// The number of connections for the tables of SharedTables.
    package static let tableConnections = 4
    /// The pause, in milliseconds, before work is tried again. There is a pause if PostgreSQL could not be reached, or
    /// if a batch that locks its driver had a conflict. After other conflicts, there is no pause.
    private static let retryMilliseconds = 20
    /// The reason with which the check of a deadline fails if it would have to wait for a slow batch.
    private static let slowReason = "an earlier write of the driver may take long"

    let queue: WorkQueue
    private let writing: PostgresPool
    private let reading: PostgresPool
    let tables: TableTransactions
    /// Connections for background work such as retention. Some of this work takes minutes, for example the count of the
    /// drivers. It has separate connections, so that no request waits for it.
    let tending: PostgresPool
    /// The connection for reads that may take ten minutes, for example trials and searches for old sessions. The probe
    /// of `/readyz` uses `tending` and waits only four seconds, so these reads do not use `tending`.
    let searching: PostgresPool
    private let batches: BatchRun
    let directory = ShardDirectory()
    let settled = SettledPosition()
    private let metrics: BatchMetrics
    private let writersMax: Int
    private let requestSeconds: Int
    let logger: Logger
    /// Whether the last count of the drivers failed.
    let hasFailedCount = Mutex(false)
    /// The versions of drivers that the last read of `committedChanges` found.
    let polledVersions = Mutex(PolledVersions())

    /// - Parameters:
    ///   - writersMax: the number of connections that write batches at the same time, 1 to 4.
    ///   - readersMax: the number of connections for reads.
    ///   - tableConnections: the number of connections for the tables of SharedTables. Each connection has a thread.
    ///   - digests: computes the keyed hashes that identify deleted drivers. If nil, no driver is ever deleted.
    ///   - charging: applies the rate limits to the refolds that late events cause. If nil, these refolds are not
    ///     charged.
    ///   - tailBegin: the number of a driver's events in the first read for a late event.
    ///   - tailMax: the maximum number of a driver's events in memory during a fold.
    package init(
        _ configuration: PostgresConfiguration, writersMax: Int = 2, readersMax: Int = 2,
        tableConnections: Int = PostgresEventStore.tableConnections, loops: EventLoopGroup,
        requestSeconds: Int = PostgresEventStore.requestSeconds, digests: KeyedHashes? = nil,
        charging: (any RefoldCharging)? = nil, tailBegin: Int64 = PostgresEventStore.tailBegin,
        tailMax: Int64 = PostgresEventStore.tailMax, metrics: any MetricsFactory = NOOPMetricsHandler.instance,
        logger: Logger
    ) {
        self.metrics = BatchMetrics(metrics)
        self.writersMax = min(max(writersMax, 1), 4)
        self.requestSeconds = requestSeconds
        self.logger = logger
        // If there are two or more writers, slow batches never use all of them. So batches that take milliseconds need
        // not wait for a slow one.
        queue = WorkQueue(worksMax: PostgresEventStore.waitingMax, slowMax: max(1, self.writersMax - 1))
        writing = PostgresPool(configuration, size: self.writersMax, loops: loops, logger: logger)
        reading = PostgresPool(configuration, size: max(readersMax, 1), loops: loops, logger: logger)
        tables = TableTransactions(
            configuration, connections: max(tableConnections, 1), loops: loops, requestSeconds: requestSeconds,
            logger: logger)
        tending = PostgresPool(configuration, size: 2, loops: loops, logger: logger)
        searching = PostgresPool(configuration, size: 1, loops: loops, logger: logger)
        batches = BatchRun(
            pool: writing, directory: directory, charging: charging, digests: digests, knownSettings: KnownSettings(),
            tailBegin: tailBegin, tailMax: tailMax, metrics: self.metrics, logger: logger)
    }

    /// Keeps the connections open and writes batches, until `close` is called or the task is cancelled. Requests that
    /// arrive before this call wait for it. If the task is cancelled, all unanswered requests fail.
    package func run() async {
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await self.writing.run() }
            group.addTask { await self.reading.run() }
            group.addTask { await self.tables.run() }
            group.addTask { await self.tending.run() }
            group.addTask { await self.searching.run() }
            await withTaskCancellationHandler {
                await withTaskGroup(of: Void.self) { writers in
                    for _ in 0..<writersMax { writers.addTask { await self.write() } }
                    writers.addTask { await self.tables.waitUntilClosed() }
                }
            } onCancel: {
                queue.refuseFurther()
                tables.refuseFurther()
            }
            group.cancelAll()
        }
    }

    /// Refuses new requests and transactions. Returns when all accepted ones have been answered; `run` then returns
    /// too.
    package func close() async {
        tables.refuseFurther()
        await queue.close()
        await tables.waitUntilClosed()
    }

    /// See `init`.
    var tailMax: Int64 { batches.tailMax }

    /// The number of requests that wait for a batch.
    package var writesWaiting: Int { queue.count }

    // MARK: Writing

    package func append(_ request: consuming AppendRequest) async -> EventOutcome {
        await append([request])[0]
    }

    package func append(_ requests: [AppendRequest]) async -> [EventOutcome] {
        guard !requests.isEmpty else { return [] }
        let appends = requests.map { PreparedAppend($0) }
        let until = Deadline.inSeconds(requestSeconds)
        return await withCheckedContinuation { continuation in
            let reply = AppendReply(count: appends.count, continuation)
            add(
                appends.enumerated().map { index, append in
                    (append.request.driver, Work(.append(append, reply, index: index), until: until))
                })
        }
    }

    package func register(_ registration: SessionRegistration) async throws(StoreFailure) -> RegistrationOutcome {
        try await withCheckedContinuation { continuation in
            add([(registration.driver, Work(.register(registration, continuation), until: .inSeconds(requestSeconds)))])
        }.get()
    }

    /// If the driver's deadline has passed, stores the expiry (the event of the passed deadline). Returns whether this
    /// call stored the expiry.
    func expire(_ driver: DriverID, _ request: ExpiryRequest) async -> Result<Bool, StoreFailure> {
        await withCheckedContinuation { continuation in
            add([(driver, Work(.expire(request, continuation), until: .inSeconds(requestSeconds)))])
        }
    }

    func refold(_ driver: DriverID, _ refold: DriverRefold) async -> Result<RefoldCounts, StoreFailure> {
        await withCheckedContinuation { continuation in
            add([(driver, Work(.refold(refold, continuation), until: .inSeconds(BatchRun.lockedSeconds)))])
        }
    }

    private func add(_ works: [(driver: DriverID, work: Work)]) {
        do throws(WorkQueue.Refusal) {
            try queue.add(works)
        } catch {
            let reason =
                switch error {
                case .full: "too many writes are waiting"
                case .closed: "the store is closed"
                case .slow: Self.slowReason
                }
            for (_, work) in works { work.answer(.failure(.unavailable(reason))) }
        }
    }

    private func write() async {
        while let taken = await queue.take(worksMax: Self.batchMax) {
            let groups = taken.filter { !isOver($0) }
            guard !groups.isEmpty else { continue }
            let results = await batches.run(groups)
            var pauses = false
            for (group, result) in zip(groups, results) {
                var works = group.works
                switch result {
                case .done(let outcomes):
                    for (work, outcome) in zip(works, outcomes) { work.answer(outcome) }
                    giveBack(group.driver, undone: Array(works.dropFirst(outcomes.count)))
                case .alone(let isLong):
                    for index in works.indices { (works[index].isAlone, works[index].isLong) = (true, isLong) }
                    putBack(works, of: group.driver, "many events are folded again")
                case .conflict:
                    metrics.noteConflict()
                    pauses = pauses || group.needsLock
                    for index in works.indices { works[index].conflictCount += 1 }
                    putBack(works, of: group.driver, "other writes of the driver were faster")
                case .lost(let error, let batch):
                    pauses = true
                    if let batch { for index in works.indices { works[index].batchesInDoubt.append(batch) } }
                    putBack(works, of: group.driver, "PostgreSQL: \(error)")
                }
            }
            // A cancellation also closes the queue, and the loop ends when the queue is empty. So `try?` is safe here.
            if pauses { try? await Task.sleep(for: .milliseconds(Self.retryMilliseconds)) }
        }
    }

    /// If the time limits of all works in the group have passed, fails the works and returns true. These works have
    /// waited for slow batches. Running them now would delay the next slow batch for nothing.
    private func isOver(_ group: DriverGroup) -> Bool {
        guard group.works.allSatisfy(\.until.hasPassed) else { return false }
        putBack(group.works, of: group.driver, "too many writes were waiting")
        return true
    }

    private func putBack(_ works: [Work], of driver: DriverID, _ reason: String) {
        let (over, undone) = (works.filter(\.until.hasPassed), works.filter { !$0.until.hasPassed })
        for work in over { work.answer(.failure(work.failure(reason))) }
        giveBack(driver, undone: undone)
    }

    /// Makes a driver available again after its batch. If a check of the driver's deadline would wait for a slow batch,
    /// fails this check. The next call of `storeExpiries` tries the check again.
    private func giveBack(_ driver: DriverID, undone: [Work]) {
        for check in queue.giveBack(driver, undone: undone) {
            check.answer(.failure(check.failure(Self.slowReason)))
        }
    }

    // MARK: Reading

    /// Runs queries on a connection of `reading`. An idle connection may have been lost without notice. If so, the
    /// queries are run again on another connection.
    ///
    /// The wait for a connection may take `roundTripSeconds`. The calls to the server then get another
    /// `roundTripSeconds`. If they got only the rest of the time, they could time out, and a timeout closes the
    /// connection.
    ///
    /// - Parameter isAcknowledging: whether the results tell a client that something is stored. If so, the rows are
    ///   returned only after the synchronous standby has them.
    func read(
        _ queries: [PostgresQuery], isAcknowledging: Bool = false
    ) async throws(StoreFailure) -> [PostgresResult] {
        let deadline = Deadline.inSeconds(BatchRun.roundTripSeconds)
        while true {
            do throws(PostgresError) {
                return try await reading.withConnection(until: deadline) {
                    (connection) async throws(PostgresError) -> [PostgresResult] in
                    let end = Deadline.inSeconds(BatchRun.roundTripSeconds)
                    let results = try await connection.run(queries, until: end)
                    if isAcknowledging, results.contains(where: { $0.rowCount > 0 }),
                        try await connection.needsConfirmation(until: end)
                    {
                        _ = try await connection.run([PostgresQuery(.confirm)], until: end)
                        connection.noteCommit()
                    }
                    return results
                }
            } catch {
                guard BatchRun.isLost(error), !deadline.hasPassed, !Task.isCancelled else {
                    throw StoreFailure(reading: error)
                }
            }
        }
    }

    /// Returns the shards. If `directory` does not know them, reads them from the server, with the time limits of
    /// `read`.
    func shards() async throws(StoreFailure) -> Shards {
        if let shards = directory.shardsIfKnown { return shards }
        let deadline = Deadline.inSeconds(BatchRun.roundTripSeconds)
        do throws(PostgresError) {
            return try await reading.withConnection(until: deadline) {
                (connection) async throws(PostgresError) -> Shards in
                try await directory.shards(on: connection, until: .inSeconds(BatchRun.roundTripSeconds))
            }
        } catch {
            throw StoreFailure(reading: error)
        }
    }

    package func lookUp(
        _ submission: EventSubmission, of driver: DriverID
    ) async throws(StoreFailure) -> EventOutcome? {
        try await lookUp([submission], of: driver)[0]
    }

    /// One statement reads both the stored events and the driver's current journey, so that they are consistent.
    package func lookUp(
        _ submissions: [EventSubmission], of driver: DriverID
    ) async throws(StoreFailure) -> [EventOutcome?] {
        guard !submissions.isEmpty else { return [] }
        let keys = submissions.map { Optional($0.idempotencyKey) }
        let query = PostgresQuery(
            Self.lookUps, try await shards().parameters(of: driver) + [.text(driver.rawValue), .texts(keys)])
        let results = try await read([query], isAcknowledging: true)
        do throws(PostgresError) {
            var found: [TextKey: (stored: StoredKey, journey: Journey)] = [:]
            for row in results[0].rows {
                found[TextKey(try row.text(0))] = (try StoredKey(row, at: 1), try Journey(row, at: 11))
            }
            return submissions.map { submission in
                guard let (stored, journey) = found[TextKey(submission.idempotencyKey)] else { return nil }
                guard stored.isRepeated(by: submission, digest: PreparedAppend.digest(of: submission)) else {
                    return .keyReused
                }
                return .replayed(StoredEvent(eventID: stored.eventID, verdict: stored.verdict, journey: journey))
            }
        } catch {
            throw StoreFailure(reading: error)
        }
    }

    /// Parameters: `LaneParameters`, `driver_id`, idempotency keys.
    private static let lookUps = PostgresStatement(
        "look_up",
        """
        SELECT event.idempotency_key, coalesce(event.event_id, event.idempotency_key), event.digest,
            \(Verdict.columnNames), event.app_state, event.schema_version, event.details IS NOT NULL,
            event.batch, driver.version, driver.state, driver.session_id, driver.target_charger,
            driver.next_target_charger, driver.grace_deadline_ms, driver.hard_deadline_ms, driver.ended_by,
            driver.previous_session_id
        FROM driver, unnest($4::text[]) asked(idempotency_key), \(RowByKey.askedEvent)
        WHERE driver.driver_id = $3::text AND \(LaneParameters.condition("driver"))
        """)
}

extension StoreFailure {
    /// The failure of a read.
    init(reading error: PostgresError) {
        self = error.kind == .cancelled ? .cancelled : .unavailable("PostgreSQL: \(error)")
    }
}
