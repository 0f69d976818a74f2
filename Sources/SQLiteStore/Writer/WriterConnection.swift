// Runs the transaction of a group: BEGIN, every piece of work, COMMIT. After an error, determines what is known to be
// stored.
//
// Normally, requests have no savepoint. A request is refused before its first write (EventAppending.swift), so only a
// failing statement can leave half a request behind. The whole transaction is then rolled back.
//
// If a request may have caused the error, the group runs again with a savepoint around each request. Only the failing
// request is then refused. After other errors (disk full, I/O error), the whole group fails.
//
// Not Sendable: used only on the writer's queue.

import Engine
import GRDB
import GRDBSQLite
import Identity
import RateLimiting
import SharedTables

final class WriterConnection {
    /// The writer's work on the WAL. `log` is declared before the statements, because members are released in the order
    /// of their declaration. When `log` is released, it still uses the connection, which the statements keep alive.
    let log: WriterWAL
    let appending: EventAppending
    let expiring: ExpiryStoring
    let transaction: WriterTransaction
    /// PRAGMA data_version. The value changes when another connection has committed.
    private let dataVersion: PreparedStatement
    private var lastDataVersion: Int64 = -1

    /// Time limit for adding work to one transaction. After that, the transaction is committed, and the remaining work
    /// goes to the end of the queue.
    ///
    /// A group of 512 ordinary events takes a fifth of the limit. A batch of late events may reach it, because each
    /// late event causes later events of the journey to be rewritten.
    private let timeSlice: Duration
    private let pace: RefoldPace
    /// The time from which refolds and deletions may continue. Refolds by new late events do not set it
    /// (`RefoldBudget.time`). Otherwise late events could delay another driver's refold forever.
    private(set) var nextPiece = ContinuousClock.now
    private var lastOtherWork = ContinuousClock.now
    static let timeSlice = Duration.milliseconds(100)

    /// The connection must outlive this object, or be closed with sqlite3_close_v2.
    init(
        on connection: OpaquePointer, newestKeys: NewestKeys, digests: KeyedHashes?, checkpointer: Checkpointer,
        timeSlice: Duration = timeSlice, charging: (any RefoldCharging)? = nil, pace: RefoldPace = RefoldPace()
    ) throws(SQLiteError) {
        self.timeSlice = timeSlice
        self.pace = pace
        log = WriterWAL(of: connection, checkpointer: checkpointer)
        appending = try EventAppending(
            on: connection, newestKeys: newestKeys, digests: digests, charging: charging)
        expiring = try ExpiryStoring(appending, on: connection)
        transaction = try WriterTransaction(on: connection)
        dataVersion = try PreparedStatement("PRAGMA data_version", on: connection)
    }

    /// The result of a group.
    struct GroupResult {
        /// If false, nothing was stored, or it is unknown whether the group was stored.
        var isCommitted: Bool
        /// Work that did not fit into the transaction. Its tasks are still waiting.
        var leftover: [WriterWork] = []
        /// Work that waits until refolds and deletions may continue (`nextPiece`). Its tasks are still waiting.
        var waiting: [WriterWork] = []
    }

    /// Does as much of the work as fits into `timeSlice`, in one transaction. Resumes the tasks whose work is finished.
    func run(_ group: [WriterWork], _ db: Database) -> GroupResult {
        var attempt = attempt(group, db, isolating: false)
        if case .failed(let error, _) = attempt, error.isAboutOneDriver {
            attempt = self.attempt(group, db, isolating: true)
        }
        switch attempt {
        case .committed(let done, let undone):
            appending.chargeForRefolds()
            resumeWaiters(done)
            return GroupResult(isCommitted: true, leftover: undone.leftover, waiting: undone.waiting)
        case .failed(_, let failure):
            fail(group, failure)
            return GroupResult(isCommitted: false)
        }
    }

    private func resumeWaiters(_ done: [CompletedWork]) {
        if done.contains(where: \.purgesWAL) { log.truncateAwaitingReaders() }
        // An iteration over the elements would copy each one, with every text of its outcome.
        for index in done.indices { done[index].resume() }
    }

    private func fail(_ group: [WriterWork], _ failure: StoreFailure) {
        for work in group { work.fail(failure) }
    }

    /// Updates the idempotency keys in memory. Reads the keys of events that are neither in `event_key` nor in memory.
    func loadKeys() {
        do {
            try transaction.start()
            appending.keys.forget()
            try appending.keys.bringUpToDate()
            try transaction.end()
            appending.keys.noteCommit()
        } catch {
            // The next event to be stored causes another attempt. If this attempt fails too, the event fails.
            rollBack()
        }
    }

    // MARK: One transaction

    private enum Attempt {
        case committed([CompletedWork], Undone)
        case failed(SQLiteError, StoreFailure)
    }

    /// Work of one transaction that continues in another transaction. See `GroupResult`.
    private struct Undone {
        var leftover: [WriterWork] = []
        var waiting: [WriterWork] = []

        var isEmpty: Bool { leftover.isEmpty && waiting.isEmpty }
    }

    private func attempt(_ group: [WriterWork], _ db: Database, isolating: Bool) -> Attempt {
        do {
            try transaction.start()
            try dropCachesAfterOtherWriters()
            let start = ContinuousClock.now
            let timeSliceEnds = start + timeSlice
            let rowsMax = start >= nextPiece ? pace.rowsPerPiece : 0
            appending.budget = RefoldBudget(rowsPerLateEvent: pace.rowsPerLateEvent, rowsLeft: rowsMax)
            var done: [CompletedWork] = []
            var undone = Undone()
            done.reserveCapacity(group.count)
            for index in group.indices {
                if index > 0, .now >= timeSliceEnds {
                    undone.leftover.append(group[index])
                } else {
                    switch try perform(group[index], db, isolating: isolating, until: timeSliceEnds) {
                    case .done(let work): done.append(work)
                    case .goesOn(let work): undone.leftover.append(work)
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

    /// Sets `nextPiece` after the transaction has worked on refolds or deletions (`RefoldBudget.time`). The pause is
    /// `pauseFactor` times as long as this work took. If the writer has done no other work recently, there is no pause.
    private func pauseRefolds(after done: [CompletedWork]) {
        let now = ContinuousClock.now
        if done.contains(where: { !$0.isPaced }) { lastOtherWork = now }
        guard let time = appending.budget.time else { return }
        nextPiece = now + (now - lastOtherWork < pace.quiet ? time * pace.pauseFactor : .zero)
    }

    /// Empties the caches if another connection has committed. Must be called inside the transaction, because no other
    /// connection can commit during it.
    private func dropCachesAfterOtherWriters() throws(SQLiteError) {
        let version = try dataVersion.first({ _ in }, read: { row in row.integer(0) })
        if version != lastDataVersion {
            appending.forget()
            // Another process may have left a mark in the database because it did not truncate the WAL. The first
            // transaction need not read the mark, because the initializer of `log` has read it.
            if lastDataVersion != -1 { log.takeOverMark() }
        }
        lastDataVersion = version ?? -1
    }

    private func commit(_ done: [CompletedWork], _ undone: Undone) -> Attempt {
        do {
            try transaction.end()
            appending.keys.noteCommit()
            return .committed(done, undone)
        } catch {
            rollBack()
            return .failed(error, transaction.failure(ofCommit: error))
        }
    }

    /// Empties the caches and rolls the transaction back.
    private func rollBack() {
        appending.noteRollback()
        transaction.rollBack()
    }
}
