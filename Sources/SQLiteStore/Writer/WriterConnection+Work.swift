// Performs one piece of the writer's work inside the transaction.

import Engine
import GRDB
import Identity
import SharedTables

extension WriterConnection {
    enum Step {
        case done(CompletedWork)
        /// A part of the work is done. Another transaction continues with the associated value.
        case goesOn(WriterWork)
        /// The associated value is the remaining work, which waits until refolds may continue.
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
                // After a completed refold, the remaining events go to another transaction, because the refold is
                // charged to the rate limits only after a commit. The limits then include the refold when they are
                // applied to the next event.
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

    /// Makes a change in a savepoint. If the change fails, the savepoint undoes its writes.
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

    /// Stores the due expiries: the events that end sessions after a deadline has passed. Each driver has a separate
    /// savepoint. A driver whose rows cannot be read therefore does not delay the deadlines of other drivers.
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

    /// Begins or continues the refold of a driver, in a savepoint. Returns nil if no refold may continue now, so the
    /// work must wait. An error that the driver's rows may have caused rolls back only the savepoint, and becomes
    /// `RefoldPart.failure`.
    private func refold(_ due: DueRefold) throws(SQLiteError) -> RefoldPart? {
        guard due.driver == nil || appending.budget.rowsLeft > 0 else { return nil }
        let unreported = due.correction.map { appending.takeUnreported(of: $0) } ?? RefoldCounts()
        guard let driverID = due.driver else { return RefoldPart(next: nil, counts: unreported) }
        var correction: Refolding.Correction?
        if let id = due.correction, let from = due.from { correction = Refolding.Correction(id: id, from: from) }
        var piece: Refolding.Piece?
        let outcome = try self.request(isolating: true) { () throws(SQLiteError) in
            // After the search found this driver, another transaction may have completed the refold, or a deletion may
            // have replaced `driver_id`. In both cases there is nothing to do.
            guard let driver = try appending.drivers.row(of: driverID), driver.id == due.number,
                driver.needsRefold || correction != nil
            else { return }
            if try appending.isOfNewerRelease(driver) { throw .foldedByNewerRelease }
            piece = try appending.refold(driver, correction: correction, reporting: due.correction, now: due.now)
        }
        // If the refold goes on, the next search must begin with this driver. If the refold failed, or if the refold
        // that `due` requests is complete, the next search begins after this driver.
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

    /// Runs the body of one request. With `isolating`, runs it in a savepoint. An error that may be about only one
    /// driver (`isAboutOneDriver`) then rolls back only this request, and is returned as a failure.
    ///
    /// Without a savepoint, only the error `driverWasErased` is returned as a failure. Every other error is thrown, and
    /// the caller rolls the whole transaction back.
    private func request<Outcome>(
        isolating: Bool, _ body: () throws(SQLiteError) -> Outcome
    ) throws(SQLiteError) -> Result<Outcome, StoreFailure> {
        guard isolating else {
            do {
                return .success(try body())
            } catch .driverWasErased {
                // There is nothing to roll back, because `driverWasErased` is thrown before the request's first write.
                return .failure(.driverErased)
            }
        }
        // Writes the changes of earlier requests before the savepoint begins, so that a rollback undoes only this
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
