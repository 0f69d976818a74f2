// Runs the transaction of a group commit: BEGIN, every piece of work, COMMIT. If one of these fails, determines what is
// known to be stored.
//
// Requests normally have no savepoint. A refusal comes before a request's first write (EventAppending.swift), so only a
// failing statement can leave half a request behind. The whole transaction is then rolled back. If the failure was not
// caused by a request (disk full, I/O error), the whole group fails, because the cause affects every request. Otherwise
// the group runs again with a savepoint around each request, and only the failing request is refused.
//
// Not Sendable: used only on the writer's queue.

import Engine
import GRDB
import GRDBSQLite
import Identity
import RateLimiting
import SharedTables

final class WriterConnection {
    private let connection: OpaquePointer
    /// `log` is declared before the statements, because members are released in the order of their declaration. The
    /// statements keep the connection alive, and `log` still uses the connection when `log` is released.
    let log: WriterWAL
    private let appending: EventAppending
    private let expiring: ExpiryStoring
    private let begin: PreparedStatement
    private let commit: PreparedStatement
    private let rollback: PreparedStatement
    private let probe: PreparedStatement
    /// PRAGMA data_version. The value changes when another connection has committed.
    private let dataVersion: PreparedStatement
    private var lastDataVersion: Int64 = -1
    private let savepoint: PreparedStatement
    private let rollbackToSavepoint: PreparedStatement
    private let releaseSavepoint: PreparedStatement

    /// Time limit for adding work to one transaction. When it has passed, the transaction is committed, and the
    /// remaining work goes to the end of the queue. A group of 512 ordinary events takes a fifth of the limit. The
    /// limit matters for a batch of late events in a journey of ten thousand events. Each late event rewrites the
    /// events after it, and one transaction for the whole batch would delay all other requests.
    private let turnLength: Duration
    private let pace: RefoldPace
    /// The time from which refolds and deletions may continue. It is set only after a transaction in which a refold or
    /// a deletion continued. Late events do not set it: otherwise late events of other drivers could delay a waiting
    /// refold forever.
    private(set) var nextPiece = ContinuousClock.now
    /// The time when work other than refolds and deletions was last done.
    private var lastOtherWork = ContinuousClock.now
    static let turnLength = Duration.milliseconds(100)

    /// The connection must outlive this object, or be closed with sqlite3_close_v2.
    init(
        on connection: OpaquePointer, newestKeys: NewestKeys, digests: KeyedHashes?, checkpointer: Checkpointer,
        turnLength: Duration = turnLength, charging: (any RefoldCharging)? = nil, pace: RefoldPace = RefoldPace()
    ) throws(SQLiteError) {
        self.connection = connection
        self.turnLength = turnLength
        self.pace = pace
        log = WriterWAL(of: connection, checkpointer: checkpointer)
        appending = try EventAppending(
            on: connection, newestKeys: newestKeys, digests: digests, charging: charging)
        expiring = try ExpiryStoring(appending, on: connection)
        begin = try PreparedStatement("BEGIN IMMEDIATE", on: connection)
        commit = try PreparedStatement("COMMIT", on: connection)
        rollback = try PreparedStatement("ROLLBACK", on: connection)
        probe = try PreparedStatement(
            "UPDATE write_probe SET written_count = written_count + 1 WHERE id = 1", on: connection)
        dataVersion = try PreparedStatement("PRAGMA data_version", on: connection)
        savepoint = try PreparedStatement("SAVEPOINT request", on: connection)
        rollbackToSavepoint = try PreparedStatement("ROLLBACK TO request", on: connection)
        releaseSavepoint = try PreparedStatement("RELEASE request", on: connection)
    }

    /// The result of a group.
    struct TimeSlice {
        /// False when no part of the group is known to be stored.
        var isCommitted: Bool
        /// Work that did not fit into the transaction. The tasks that wait for this work have not been resumed.
        var rest: [WriterWork] = []
        /// Work that waits for a refold, which continues at `nextPiece`. The tasks that wait for this work have not
        /// been resumed.
        var waiting: [WriterWork] = []
    }

    /// Does as much of the work as fits into `turnLength`, in one transaction. For each finished piece of work, resumes
    /// the waiting task once.
    func run(_ group: [WriterWork], _ db: Database) -> TimeSlice {
        var attempt = attempt(group, db, isolating: false)
        if case .failed(let error, _) = attempt, error.isAboutOneStatement {
            attempt = self.attempt(group, db, isolating: true)
        }
        switch attempt {
        case .committed(let done, let undone):
            appending.chargeForRefolds()
            resumeWaiters(done)
            return TimeSlice(isCommitted: true, rest: undone.rest, waiting: undone.waiting)
        case .failed(_, let failure):
            fail(group, failure)
            return TimeSlice(isCommitted: false)
        }
    }

    private func resumeWaiters(_ done: [CompletedWork]) {
        if done.contains(where: \.purgesWAL) { log.truncateAwaitingReaders() }
        // Iterates by index, because iterating over the elements would copy each one, with every text of its outcome.
        for index in done.indices { done[index].resume() }
    }

    private func fail(_ group: [WriterWork], _ failure: StoreFailure) {
        for work in group { work.fail(failure) }
    }

    /// Reads the keys of events that `event_key` does not list, and that this process has not stored.
    func loadKeys() {
        do {
            try begin.run()
            appending.keys.forget()
            try appending.keys.bringUpToDate()
            try commit.run()
        } catch {
            // The next event tries again, and has the error.
            rollBack()
        }
    }

    // MARK: One transaction

    private enum Attempt {
        case committed([CompletedWork], Undone)
        case failed(SQLiteError, StoreFailure)
    }

    /// Work of one transaction that continues in another transaction. See `TimeSlice`.
    private struct Undone {
        var rest: [WriterWork] = []
        var waiting: [WriterWork] = []

        var isEmpty: Bool { rest.isEmpty && waiting.isEmpty }
    }

    private func attempt(_ group: [WriterWork], _ db: Database, isolating: Bool) -> Attempt {
        do {
            if isInTransaction { rollBack() }
            try begin.run()
            try dropCachesAfterOtherWriters()
            let start = ContinuousClock.now
            let turnEnds = start + turnLength
            let rowsMax = start >= nextPiece ? pace.rowsPerPiece : 0
            appending.budget = RefoldBudget(rowsPerLateEvent: pace.rowsPerLateEvent, rowsLeft: rowsMax)
            var done: [CompletedWork] = []
            var undone = Undone()
            done.reserveCapacity(group.count)
            for index in group.indices {
                if index > 0, .now >= turnEnds {
                    undone.rest.append(group[index])
                } else {
                    switch try perform(group[index], db, isolating: isolating, until: turnEnds) {
                    case .done(let work): done.append(work)
                    case .goesOn(let work): undone.rest.append(work)
                    case .waits(let work): undone.waiting.append(work)
                    }
                }
            }
            pauseRefolds(after: done)
            try appending.drivers.writeChanged()
            try appending.keys.finishTransaction()
            try log.mark(removesSomething: done.contains(where: \.purgesWAL))
            return commit(done, undone)
        } catch {
            rollBack()
            return .failed(error, .unavailable(error.description))
        }
    }

    /// Sets the time from which refolds and deletions may continue. If this transaction continued a refold or a
    /// deletion, and there was other work recently, sets a pause. The pause is `restFactor` times as long as the
    /// continued work took.
    private func pauseRefolds(after done: [CompletedWork]) {
        let now = ContinuousClock.now
        if done.contains(where: { !$0.isPaced }) { lastOtherWork = now }
        guard let time = appending.budget.time else { return }
        nextPiece = now + (now - lastOtherWork < pace.quiet ? time * pace.restFactor : .zero)
    }

    /// Empties the caches if another connection has committed. Must be called inside the transaction, because no other
    /// connection can commit while the transaction is open.
    private func dropCachesAfterOtherWriters() throws(SQLiteError) {
        let version = try dataVersion.first({ _ in }, read: { row in row.integer(0) })
        if version != lastDataVersion {
            appending.forgetDrivers()
            // The first transaction does not take over the mark, because `log` read the mark when it was created.
            if lastDataVersion != -1 { log.takeOverMark() }
        }
        lastDataVersion = version ?? -1
    }

    private func commit(_ done: [CompletedWork], _ undone: Undone) -> Attempt {
        do {
            try commit.run()
            appending.keys.noteCommit()
            return .committed(done, undone)
        } catch {
            rollBack()
            return .failed(error, failure(ofCommit: error))
        }
    }

    /// Returns `.unavailable` if the failed COMMIT has certainly stored nothing, else `.unknown`. SQLite has rolled the
    /// transaction back, so this process does not see the transaction's changes. But the transaction's frames may be in
    /// the WAL, and a recovery after a crash could find them. `isWritable` therefore commits another transaction, which
    /// certainly overwrites these frames.
    private func failure(ofCommit error: SQLiteError) -> StoreFailure {
        if error.provesThatCommitDidNotHappen || isWritable() {
            return .unavailable("commit failed: \(error)")
        }
        return .unknown("commit failed: \(error)")
    }

    private func isWritable() -> Bool {
        do {
            try begin.run()
            try probe.run()
            try commit.run()
            return true
        } catch {
            rollBack()
            return false
        }
    }

    private var isInTransaction: Bool { sqlite3_get_autocommit(connection) == 0 }

    /// Rolls the transaction back, unless the error has already ended it, and empties the caches. A failed ROLLBACK is
    /// retried before the next BEGIN.
    private func rollBack() {
        if isInTransaction { try? rollback.run() }
        appending.dropRolledBackCaches()
        appending.keys.noteRollback()
    }

    // MARK: One piece of work

    private enum Step {
        case done(CompletedWork)
        /// A part of the work is done. The associated value is the rest of the work.
        case goesOn(WriterWork)
        /// The associated value is the work that remains. It waits until refolds may continue.
        case waits(WriterWork)
    }

    private func perform(
        _ work: WriterWork, _ db: Database, isolating: Bool, until turnEnds: ContinuousClock.Instant
    ) throws(SQLiteError) -> Step {
        switch work {
        case .append(let append, let waiting):
            switch try outcome(of: append, isolating: isolating) {
            case .outcome(let outcome): return .done(.append(outcome, waiting))
            case .waits(let append): return .waits(.append(append, waiting))
            }
        case .appendMany(let appends, var outcomes, let waiting):
            for (index, append) in appends.enumerated() {
                switch try outcome(of: append, isolating: isolating) {
                case .outcome(let outcome): outcomes.append(outcome)
                case .waits(let first):
                    return .waits(.appendMany([first] + appends[(index + 1)...], after: outcomes, waiting))
                }
                // After a completed refold, the remaining events go to another transaction. In this way, the rate
                // limiter charges for the refold before the next event is admitted.
                if index + 1 < appends.count, append.isStored || .now >= turnEnds {
                    return .goesOn(.appendMany(Array(appends[(index + 1)...]), after: outcomes, waiting))
                }
            }
            return .done(.appendMany(outcomes, waiting))
        case .register(let registration, let waiting):
            let outcome = try request(isolating: isolating) { () throws(SQLiteError) in
                try appending.register(registration)
            }
            return .done(.register(outcome, waiting))
        case .expire(let request, let waiting):
            return .done(.expire(try expire(request), waiting))
        case .refold(let due, let waiting):
            guard let part = try refold(due) else { return .waits(work) }
            return .done(.refold(part, waiting))
        case .change(let change):
            guard change.isPaced else { return .done(.change(try completed(change, db))) }
            guard appending.budget.rowsLeft > 0 else { return .waits(work) }
            let start = ContinuousClock.now
            defer { appending.budget.spendAll(since: start) }
            return .done(.change(try completed(change, db)))
        case .probe(let waiting):
            try probe.run()
            return .done(.probe(waiting))
        }
    }

    /// Makes a change in a savepoint. The change may fail after its first write, and the savepoint then undoes that
    /// write.
    private func completed(_ change: PendingChange, _ db: Database) throws(SQLiteError) -> CompletedChange {
        var keepsDriverCache = false
        defer { if !keepsDriverCache { appending.forgetDrivers() } }
        let outcome = try request(isolating: true, sparing: \.isAboutOneDriver) {
            () throws(SQLiteError) -> CompletedChange in
            do {
                return try change.make(db)
            } catch {
                throw SQLiteError(error)
            }
        }
        switch outcome {
        case .success(let completed):
            keepsDriverCache = completed.effects.keepsDriverCache
            return completed
        case .failure(let failure):
            return CompletedChange(isPaced: change.isPaced) { change.fail(failure) }
        }
    }

    /// Stores the due expiries. Each driver's expiries have a separate savepoint, so that a driver whose rows cannot be
    /// read does not delay the deadlines of others.
    private func expire(_ request: ExpiryRequest) throws(SQLiteError) -> StoredExpiries {
        var stored = StoredExpiries()
        try appending.drivers.writeChanged()
        let due = try expiring.due(request)
        for driver in due {
            let outcome = try self.request(isolating: true, sparing: \.isAboutOneDriver) { () throws(SQLiteError) in
                try expiring.expire(driver, request)
            }
            switch outcome {
            case .success(let hasEnded): if hasEnded { stored.drivers.append(driver.id) }
            case .failure(let failure): stored.failures.append(failure)
            }
        }
        if due.count >= request.driversMax { stored.next = due.last?.cursor }
        return stored
    }

    /// Continues or begins the refold of a driver, always in a savepoint. Returns nil if no refold may continue now. The
    /// savepoint is rolled back if the driver's rows are unreadable.
    private func refold(_ due: DueRefold) throws(SQLiteError) -> RefoldPart? {
        guard due.driver == nil || appending.budget.rowsLeft > 0 else { return nil }
        let unreported = due.correction.map { appending.takeUnreported(of: $0) } ?? RefoldCounts()
        guard let driverID = due.driver else { return RefoldPart(next: nil, counts: unreported) }
        var correction: Refolding.Correction?
        if let id = due.correction, let from = due.from { correction = Refolding.Correction(id: id, from: from) }
        var piece: Refolding.Piece?
        let outcome = try self.request(isolating: true, sparing: \.isAboutOneDriver) { () throws(SQLiteError) in
            // The driver may have been refolded, or erased and so renamed, since the search found it.
            guard let driver = try appending.drivers.row(of: driverID), driver.id == due.number,
                driver.needsRefold || correction != nil
            else { return }
            piece = try appending.refold(driver, correction: correction, reporting: due.correction, now: due.now)
        }
        // The next search begins with the same driver, unless all of the request is done for this driver.
        var part = RefoldPart(next: due.number - 1, counts: unreported)
        if case .failure(let failure) = outcome {
            part.failure = failure
            part.next = due.number
        } else if let piece {
            if piece.correction == due.correction { part.counts += piece.counts }
            if piece.isComplete, due.correction == nil || piece.correction == due.correction { part.next = due.number }
        }
        return part
    }

    private func outcome(
        of append: PreparedAppend, isolating: Bool
    ) throws(SQLiteError) -> EventAppending.Appended {
        switch try request(isolating: isolating, { () throws(SQLiteError) in try appending.append(append) }) {
        case .success(let appended): return appended
        case .failure(let failure): return .outcome(append.outcome(of: failure))
        }
    }

    /// Runs one request, in a savepoint if `isolating` is true. If `sparing` returns true for an error, the error rolls
    /// back only this request. Any other error is thrown.
    private func request<Outcome>(
        isolating: Bool, sparing: (SQLiteError) -> Bool = \.isAboutOneStatement,
        _ body: () throws(SQLiteError) -> Outcome
    ) throws(SQLiteError) -> Result<Outcome, StoreFailure> {
        guard isolating else {
            do {
                return .success(try body())
            } catch .driverWasErased {
                // `driverErased` is thrown before the request's first write, so there is nothing to roll back.
                return .failure(.driverErased)
            }
        }
        // Earlier changes are written first, so that the savepoint contains only this request's writes.
        try appending.drivers.writeChanged()
        try savepoint.run()
        let chargeCount = appending.budget.charges.count
        do {
            let outcome = try body()
            try appending.drivers.writeChanged()
            try releaseSavepoint.run()
            return .success(outcome)
        } catch {
            guard sparing(error) else { throw error }
            try rollbackToSavepoint.run()
            try releaseSavepoint.run()
            appending.budget.charges.removeSubrange(chargeCount...)
            appending.dropRolledBackCaches()
            return .failure(error == .driverWasErased ? .driverErased : .unavailable(error.description))
        }
    }
}
