// Runs one batch on a connection: reads, folds in memory, writes, and reports for each driver whether its work is done.

import Engine
import Identity
import JourneyModel
import Logging
import Postgres
import RateLimiting
import Sockets
import Synchronization

struct BatchRun: Sendable {
    /// The result of a batch for one driver's work.
    enum Result: Sendable {
        case done([WorkOutcome])
        /// The work is to be tried again. There are two possible causes:
        ///
        /// - Another transaction updated the driver, was committed between the reads of this batch, or made this
        ///   transaction fail.
        /// - This transaction cannot give valid positions to its events (`BatchReads.isBehind`, `isOfOtherServer`).
        case conflict
        /// The work is to be tried again in a batch of its own, under a lock. `isLong`: see `Work.isLong`.
        case alone(isLong: Bool)
        /// The server could not be reached or the connection was lost. The work is to be tried again until its
        /// deadline. If this batch may have stored the work, `batchInDoubt` is the batch's number; otherwise it is nil.
        case lost(PostgresError, batchInDoubt: Int64?)
    }

    let pool: PostgresPool
    let directory: ShardDirectory
    let charging: (any RefoldCharging)?
    /// Nil if no driver is ever deleted.
    let digests: KeyedHashes?
    let knownSettings: KnownSettings
    /// See BatchFold.
    let tailBegin: Int64
    /// See BatchFold.
    let tailMax: Int64
    let metrics: BatchMetrics
    let logger: Logger

    /// The time limit in seconds for the reads of a batch, for its writes, and for other round trips. A batch normally
    /// takes milliseconds, so a server that exceeds this limit counts as unreachable.
    static let roundTripSeconds = 5
    /// Replaces `roundTripSeconds` in a batch with a locked driver. Such a batch may read and write all of the driver's
    /// events. In a long batch, this limit also applies to each statement (`statement_timeout`).
    static let lockedSeconds = 60

    /// A batch's number, whether the batch may have written something, and how many stored events it read for late
    /// events.
    final class Progress: Sendable {
        let batch = Int64.random(in: 1...Int64.max)
        private let hasSentWrites = Atomic(false)
        private let tailCount = Atomic(0)

        var isWriting: Bool { hasSentWrites.load(ordering: .relaxed) }

        func noteWriting() { hasSentWrites.store(true, ordering: .relaxed) }

        /// Called if the batch updated no driver, so that no work is stored.
        func noteNothingWritten() { hasSentWrites.store(false, ordering: .relaxed) }

        var eventCount: Int { tailCount.load(ordering: .relaxed) }

        func noteRead(eventCount: Int) { tailCount.store(eventCount, ordering: .relaxed) }
    }

    /// Runs the groups. A group that needs a lock must be alone. Returns one result per group.
    func run(_ groups: [DriverGroup]) async -> [Result] {
        let progress = Progress()
        let until = groups.flatMap(\.works).map(\.until).min() ?? .now
        let begin = ContinuousClock.now
        var isCommitted = false
        defer {
            if progress.isWriting {
                metrics.commits.record(
                    requests: groups.reduce(0) { $0 + $1.works.count }, took: .now - begin, isCommitted: isCommitted)
            }
        }
        do throws(PostgresError) {
            let results = try await pool.withConnection(until: until) {
                (connection) async throws(PostgresError) -> [Result] in
                try await readAndWrite(groups, on: connection, progress)
            }
            isCommitted = true
            return results
        } catch {
            chargeLateEvent(in: groups, after: error, eventCount: progress.eventCount)
            return await results(of: groups, after: error, batch: progress.isWriting ? progress.batch : nil)
        }
    }

    /// The pool rolls back a transaction that this function leaves open.
    private func readAndWrite(
        _ groups: [DriverGroup], on connection: PostgresConnection, _ progress: Progress
    ) async throws(PostgresError) -> [Result] {
        let isLocked = groups.contains(where: \.needsLock)
        let deadline = Deadline.inSeconds(isLocked ? Self.lockedSeconds : Self.roundTripSeconds)
        let shards = try await directory.shards(on: connection, until: deadline)
        var reads = try await BatchReads.read(groups, isLocked: isLocked, shards, on: connection, until: deadline)
        if reads.isOfOtherServer {
            try await raisePositions(on: connection, until: deadline)
            return groups.map { _ in .conflict }
        }
        // If `isBehind` is true, this transaction's number is too low. A new transaction gets a higher number.
        if reads.isBehind { return groups.map { _ in .conflict } }
        var folded: [FoldedGroup]
        while true {
            var fold = BatchFold(
                reads, charging: charging, digests: digests, tailBegin: tailBegin, tailMax: tailMax)
            folded = groups.map { fold.fold($0) }
            let needs = zip(groups, folded).filter { !$1.need.isNothing }.map { ($0.driver, $1.need) }
            if needs.isEmpty { break }
            if let (driver, need) = needs.first, let refold = need.refold {
                try await write(refold, of: driver, &reads, shards, on: connection, progress)
            } else {
                try await reads.readMore(needs, shards, on: connection, until: deadline)
                progress.noteRead(eventCount: reads.tails.values.reduce(0) { $0 + $1.tail.events.count })
            }
        }
        let begins = !isLocked && !shards.areDistributed
        let writes = BatchWrites(folded, batch: progress.batch, begins: begins, known: knownSettings, shards)
        // The parts of a refold must not be committed without the driver's row. Without a row to write, the transaction
        // is rolled back, and the work is tried again.
        if writes == nil, reads.refolded != nil { return groups.map { _ in .conflict } }
        var moved: Set<Int64> = []
        if let writes {
            progress.noteWriting()
            let deadline = Deadline.inSeconds(isLocked ? Self.lockedSeconds : Self.roundTripSeconds)
            if let position = reads.position {
                moved = try await write(writes, after: position, on: connection, until: deadline)
            } else {
                let results = try await connection.run(
                    writes.moving + writes.storing + [.init(.commit)], until: deadline)
                moved = try Self.moved(results, writes)
            }
            // On Citus, a batch that updates no driver is rolled back, together with its settings.
            if !shards.areDistributed || !moved.isEmpty { knownSettings.note(writes.settings) }
            // A transaction that has updated no driver may have written nothing. Its COMMIT then has not waited for the
            // standby.
            if moved.isEmpty { progress.noteNothingWritten() } else { connection.noteCommit() }
        }
        // The answers tell clients that events are stored, so the standby must have these events. It may lack them if
        // the backend that committed them was terminated while it waited for the standby.
        let answers = folded.contains { $0.isDone(afterMoving: moved) }
        if answers, moved.isEmpty, try await needsConfirmation(isLocked, connection) {
            let deadline = Deadline.inSeconds(Self.roundTripSeconds)
            if writes != nil, shards.areDistributed {
                _ = try await connection.run([.init(.rollback)], until: deadline)
            }
            let begin = begins || writes != nil ? [PostgresQuery(.begin)] : []
            _ = try await connection.run(begin + [.init(.confirm), .init(.commit)], until: deadline)
            connection.noteCommit()
        }
        return folded.map { group in
            if group.mustBeAlone { return .alone(isLong: group.mustBeLong) }
            guard group.isDone(afterMoving: moved) else { return .conflict }
            for charge in group.charges { charging?.charge(charge.claim, rowCount: charge.rowCount) }
            return .done(group.outcomes)
        }
    }

    private func needsConfirmation(
        _ isLocked: Bool, _ connection: PostgresConnection
    ) async throws(PostgresError) -> Bool {
        if isLocked { return true }
        return try await connection.needsConfirmation(until: .inSeconds(Self.roundTripSeconds))
    }

    static func moved(_ results: [PostgresResult], _ writes: BatchWrites) throws(PostgresError) -> Set<Int64> {
        var moved: Set<Int64> = []
        for row in results.rows(writes.moves) { moved.insert(try row.int8(0)) }
        return moved
    }

    // MARK: Failures

    /// If a long batch took too long, charges its late event as if the event were stored. Without a charge, the client
    /// could cause the same work again and again.
    private func chargeLateEvent(in groups: [DriverGroup], after error: PostgresError, eventCount: Int) {
        // 57014: a statement took too long. 25P03: a pause between two statements was too long.
        guard let charging, eventCount > 0,
            error.kind == .timedOut || error.sqlState == "57014" || error.sqlState == "25P03"
        else { return }
        for group in groups where group.isLong {
            if case .append(let append, _, _) = group.works.first?.kind {
                charging.charge(append.request.claim, rowCount: eventCount)
            }
        }
    }

    /// - Parameter batch: the batch's number if the batch has begun to write; nil if not.
    private func results(
        of groups: [DriverGroup], after error: PostgresError, batch: Int64?
    ) async -> [Result] {
        switch failure(error, isWriting: batch != nil) {
        case .race: return groups.map { _ in .conflict }
        case .lost: return groups.map { _ in .lost(error, batchInDoubt: batch) }
        case .values where groups.count > 1:
            // PostgreSQL refuses a value of one group. Each group is run alone, so that the other groups are stored.
            var results: [Result] = []
            for group in groups { results += await run([group]) }
            return results
        case .values, .server:
            logger.error("a batch failed", metadata: ["error": "\(error)"])
            return groups.map { group in
                .done(group.works.map { .failure($0.failure("PostgreSQL: \(error)")) })
            }
        }
    }

    private func failure(_ error: PostgresError, isWriting: Bool) -> Failure {
        if directory.shardsIfKnown?.areDistributed == true {
            // 0A000: Citus found that the rows of a statement are not in one shard. The cause is a split of a shard, so
            // the shards are read again.
            if error.sqlState == "0A000" {
                directory.forget()
                return .race
            }
            // XX000: on Citus, a worker did not answer during COMMIT. The worker may have committed its part.
            if error.sqlState == "XX000", isWriting { return .lost }
        }
        return Failure(error, isWriting: isWriting)
    }

    /// Returns whether the connection is gone. An attempt on another connection may then succeed.
    static func isLost(_ error: PostgresError) -> Bool {
        switch error.kind {
        case .connectionLost: true
        case .server(let state): state.hasPrefix("57P") || state.hasPrefix("08")
        case .timedOut, .cannotConnect, .unreadable, .unsendable, .cancelled: false
        }
    }

    /// The consequence of a batch's error for its works.
    private enum Failure {
        /// The transaction conflicted with another one and was rolled back.
        case race
        /// The connection is gone. If COMMIT was sent, it is unknown whether the transaction was committed.
        case lost
        /// PostgreSQL refused a value, or a row that was read has an unknown value. Nothing was stored.
        case values
        /// The server refuses the batch for another reason. Nothing was stored.
        case server

        init(_ error: PostgresError, isWriting: Bool) {
            switch error.kind {
            case .connectionLost, .timedOut, .cannotConnect: self = .lost
            case .cancelled: self = .server
            case .unsendable: self = .values
            case .unreadable: self = isWriting ? .lost : .values
            case .server(let state):
                // - 23505: another instance has claimed one of the sessions.
                // - 55P03: a lock was not free in time.
                // - 57014: the statement took too long.
                // - 25006: the server is now a standby. The pool finds the new primary.
                if error.isRetryable || ["23505", "55P03", "57014"].contains(state) {
                    self = .race
                } else if BatchRun.isLost(error) || state == "25006" {
                    self = .lost
                } else if state.hasPrefix("22") || state.hasPrefix("23") || state.hasPrefix("54") {
                    self = .values
                } else {
                    self = .server
                }
            }
        }
    }
}
