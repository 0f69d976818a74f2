// Finds out to whom each session of a batch belongs, and opens and registers sessions.

import Engine
import JourneyModel
import Postgres

extension BatchFold {
    enum SessionUse {
        case none
        /// A session of this driver. The row is nil if only the session's owner was found.
        case known(SessionRow?)
        case unknown(String)
        case ofAnother
        /// The reads do not show whose session it is. `GroupState.result` tells the reason: more must be read (`need`),
        /// or the reads are inconsistent and must be repeated (`isStale`).
        case undecided
    }

    func sessionUse(of sessionID: String?, _ state: inout GroupState) -> SessionUse {
        guard let sessionID else { return .none }
        let key = TextKey(sessionID)
        if let own = state.fold?.sessions[key] { return .known(own) }
        // If the session's row was read, the session is this driver's, even if no owner was found: owners are read
        // before sessions, and the driver may have claimed this session in between.
        let row = reads.sessions[DriverText(state.driver.rawValue, sessionID)] ?? nil
        guard let id = state.fold?.row.id else { return use(ofNewDriver: sessionID, isOpened: row != nil, &state) }
        if row != nil || reads.owners[key] == id { return .known(row) }
        return reads.owners[key] == nil ? unclaimed(sessionID, &state) : .ofAnother
    }

    private func use(ofNewDriver sessionID: String, isOpened: Bool, _ state: inout GroupState) -> SessionUse {
        let driver = TextKey(state.driver.rawValue)
        guard let owner = reads.owners[TextKey(sessionID)] else {
            if !isOpened { return unclaimed(sessionID, &state) }
            state.result.isStale = true
            return .undecided
        }
        if Lane.of(driver: owner) != Lane.of(state.driver.rawValue) { return .ofAnother }
        guard let found = reads.ownerIDs[owner] else {
            state.result.need.owner = owner
            return .undecided
        }
        if let found, found != driver { return .ofAnother }
        state.result.isStale = true
        return .undecided
    }

    private func unclaimed(_ sessionID: String, _ state: inout GroupState) -> SessionUse {
        // If another driver of this batch opens the session, that opening may fail. So this group is stale: it is read
        // again after the batch.
        if claimed[TextKey(sessionID)] != nil { state.result.isStale = true }
        return .unknown(sessionID)
    }

    func open(
        _ sessionID: String, at now: Moment, _ fold: inout DriverFold, _ result: inout FoldedGroup
    ) {
        fold.write(SessionRow(driver: fold.row.id, sessionID: sessionID, openedAt: now))
        result.claims.append(
            SessionClaim(sessionID: sessionID, owner: fold.row.id, at: now))
    }

    mutating func register(_ registration: SessionRegistration, _ state: inout GroupState) {
        let now = registration.receivedAt
        let complete = { (session: SessionRow) in
            var session = session
            session.registeredAt = now
            session.registeredCharger = registration.chargerID
            session.registeredMerchant = registration.merchantID
            return session
        }
        switch sessionUse(of: registration.sessionID, &state) {
        case .none, .ofAnother: state.result.outcomes.append(.registration(.sessionNotFound))
        case .undecided: break
        // Another transaction opened or deleted the session between two reads. So it is unknown whether the session is
        // registered.
        case .known(nil): state.result.isStale = true
        case .known(let session?):
            if session.registeredAt == nil { state.fold?.write(complete(session)) }
            state.result.outcomes.append(.registration(.existed))
        case .unknown where state.fold == nil && isErased(registration.driver, at: now, &state):
            state.result.outcomes.append(.failure(.driverErased))
        case .unknown(let sessionID):
            var fold = state.take(at: now)
            open(sessionID, at: now, &fold, &state.result)
            if let opened = fold.sessions[TextKey(sessionID)] { fold.write(complete(opened)) }
            state.fold = fold
            state.result.hasRegistered = true
            state.result.outcomes.append(.registration(.created))
        }
    }
}
