// The clauses about sessions. A session belongs to one driver and does not exist for all other drivers (contract,
// section 3).

import Engine
import JourneyModel

extension EventStoreContract {
    static let sessions: [Clause] = [
        Clause("an unknown session is opened for its driver, and does not exist for another") { store in
            let (owner, other) = (DriverID("session-owner"), DriverID("session-other"))
            let mine = EventSubmission.sample(.sessionRestored, key: "k", session: "contract-session")
            guard case .stored = try await store.appended(.sample(mine, of: owner)) else {
                throw ContractViolation(description: "the owner's event was not stored")
            }
            try expect(try await store.appended(.sample(mine, of: other)), .sessionNotFound, "another driver's")
            try expect(try await store.lookUp(mine, of: other), nil, "look-up after the refusal")
            try expect(
                try await store.register(registration("contract-session", of: other)), .sessionNotFound,
                "another driver's registration")
        },
        Clause("a refused event leaves no trace: its key is still free") { store in
            let driver = DriverID("refused-driver")
            let refused = EventSubmission.sample(.sessionRestored, key: "k", session: "refused-session")
            try expect(
                try await store.appended(.sample(refused, of: driver, requiresRegisteredSession: true)),
                .sessionNotFound, "unregistered")
            guard case .stored = try await store.appended(.sample(.sample(.chargerTargeted, key: "k"), of: driver))
            else {
                throw ContractViolation(description: "the key of a refused event is taken")
            }
        },
        Clause("where registration is required, a registered session is known to its driver only") { store in
            let (owner, other) = (DriverID("registered-owner"), DriverID("registered-other"))
            try expect(try await store.register(registration("registered", of: owner)), .created, "first")
            try expect(try await store.register(registration("registered", of: owner)), .existed, "second")
            try expect(try await store.register(registration("registered", of: other)), .sessionNotFound, "other's")
            let event = EventSubmission.sample(.sessionRestored, key: "k", session: "registered")
            try expect(
                try await store.appended(.sample(event, of: other, requiresRegisteredSession: true)), .sessionNotFound,
                "the other's event")
            guard case .stored = try await store.appended(.sample(event, of: owner, requiresRegisteredSession: true))
            else { throw ContractViolation(description: "the owner's event was not stored") }
        },
        Clause("a session that an event opened is its driver's already when it is registered") { store in
            let driver = DriverID("opened-driver")
            _ = try await store.appended(
                .sample(.sample(.sessionRestored, key: "k", session: "opened"), of: driver))
            try expect(try await store.register(registration("opened", of: driver)), .existed, "registration")
        },
        Clause("a repeat is replayed even where its session would be refused now") { store in
            let driver = DriverID("replay-first-driver")
            let submission = EventSubmission.sample(.sessionRestored, key: "k", session: "replay-first")
            let stored = try event(try await store.appended(.sample(submission, of: driver)), "first")
            let outcome = try await store.appended(.sample(submission, of: driver, requiresRegisteredSession: true))
            try expect(outcome, .replayed(stored), "repeat")
        },
    ]

    private static func registration(_ sessionID: String, of driver: DriverID) -> SessionRegistration {
        SessionRegistration(
            sessionID: sessionID, driver: driver, chargerID: "charger", merchantID: nil, receivedAt: .sample)
    }
}
