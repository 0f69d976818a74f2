// Performs one piece of the writer's work inside the transaction.

import Engine
import GRDB
import Identity
import SharedTables

extension WriterConnection {
    enum Step {
        case done(CompletedWork)
        /// A part of the work is done. The associated value is the rest, which another transaction continues.
        case goesOn(WriterWork)
        /// The associated value is the work that remains. It waits until refolds may continue.
        case waits(WriterWork)
    }

    func perform(
        _ work: WriterWork, _ db: Database, isolating: Bool, until timeSliceEnds: ContinuousClock.Instant
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
                // The events after a completed refold go to another transaction. Before that transaction, the refold is
                // counted against the rate limit, so that the limit is already in force for the next event.
                if index + 1 < appends.count, append.isStored || .now >= timeSliceEnds {
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
            try transaction.writeProbe()
            return .done(.probe(waiting))
        }
    }

    /// Makes a change in a savepoint. If the change fails after its first write, the savepoint undoes the writes.
    private func completed(_ change: PendingChange, _ db: Database) throws(SQLiteError) -> CompletedChange {
        var keepsDriverCache = false
        defer { if !keepsDriverCache { appending.forget() } }
        let outcome = try request(isolating: true) {
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

    /// Stores the due expiries, the events that end sessions whose deadline has passed. Each driver's expiries have a
    /// separate savepoint, so that a driver whose rows cannot be read does not delay the deadlines of others.
    private func expire(_ request: ExpiryRequest) throws(SQLiteError) -> StoredExpiries {
        var stored = StoredExpiries()
        try appending.drivers.writeChanged()
        let due = try expiring.due(request)
        for driver in due {
            let outcome = try self.request(isolating: true) { () throws(SQLiteError) in
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

    /// Begins or continues the refold of a driver, in a savepoint. Returns nil if no refold may continue now; the
    /// caller then lets the work wait. If the driver's rows may have caused an error, rolls the savepoint back and
    /// returns the failure as part of the result.
    private func refold(_ due: DueRefold) throws(SQLiteError) -> RefoldPart? {
        guard due.driver == nil || appending.budget.rowsLeft > 0 else { return nil }
        let unreported = due.correction.map { appending.takeUnreported(of: $0) } ?? RefoldCounts()
        guard let driverID = due.driver else { return RefoldPart(next: nil, counts: unreported) }
        var correction: Refolding.Correction?
        if let id = due.correction, let from = due.from { correction = Refolding.Correction(id: id, from: from) }
        var piece: Refolding.Piece?
        let outcome = try self.request(isolating: true) { () throws(SQLiteError) in
            // A search has found this driver. Since then, another transaction may have completed the refold, or a
            // deletion may have replaced `driver_id` in the driver's row. In both cases there is nothing to do.
            guard let driver = try appending.drivers.row(of: driverID), driver.id == due.number,
                driver.needsRefold || correction != nil
            else { return }
            if try appending.isOfNewerRelease(driver) { throw .foldedByNewerRelease }
            piece = try appending.refold(driver, correction: correction, reporting: due.correction, now: due.now)
        }
        // Usually, the next search begins with this driver, so that its refold continues. But the next search begins
        // after this driver if the refold failed, or if the refold that `due` asks for is complete.
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

    /// Runs the body of one request. If `isolating` is true, runs it in a savepoint. An error that may be about only
    /// one driver (`isAboutOneDriver`) then rolls back only this request, and is returned as a failure.
    ///
    /// Without a savepoint, only the error `driverWasErased` is returned as a failure. All other errors are thrown, and
    /// the whole transaction is rolled back.
    private func request<Outcome>(
        isolating: Bool, _ body: () throws(SQLiteError) -> Outcome
    ) throws(SQLiteError) -> Result<Outcome, StoreFailure> {
        guard isolating else {
            do {
                return .success(try body())
            } catch .driverWasErased {
                // `driverWasErased` is thrown before the request's first write, so there is nothing to roll back.
                return .failure(.driverErased)
            }
        }
        // The changes of earlier requests are written before the savepoint begins, so that a rollback undoes only this
        // request's writes.
        try appending.drivers.writeChanged()
        try transaction.startSavepoint()
        let chargeCount = appending.budget.charges.count
        do {
            let outcome = try body()
            try appending.drivers.writeChanged()
            try transaction.endSavepoint()
            return .success(outcome)
        } catch {
            guard error.isAboutOneDriver else { throw error }
            try transaction.rollBackSavepoint()
            appending.budget.charges.removeSubrange(chargeCount...)
            appending.noteRollback()
            return .failure(error == .driverWasErased ? .driverErased : .unavailable(error.description))
        }
    }
}
