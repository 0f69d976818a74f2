// The requirements on every `EventStore`. They come from the contract, sections 1 and 3, and from the protocol's doc
// comments. The functions use only this protocol. A test target runs all of them:
//
//     @Test(arguments: EventStoreContract.all)
//     func `keeps the contract`(_ clause: EventStoreContract.Clause) async throws {
//         try await clause.check(store)
//     }
//
// Each clause uses its own drivers and sessions, so all clauses can share a store.

package import Engine
import JourneyModel

/// The error of a store that breaks the contract.
package struct ContractViolation: Error, CustomStringConvertible {
    package var description: String
}

package enum EventStoreContract {
    package struct Clause: Sendable, CustomStringConvertible {
        package var description: String
        package var check: @Sendable (any EventStore) async throws -> Void

        init(_ description: String, _ check: @escaping @Sendable (any EventStore) async throws -> Void) {
            self.description = description
            self.check = check
        }
    }

    package static let all: [Clause] = repeats + sessions + order + groups + services

    /// Throws a violation unless `found` equals `expected`.
    static func expect<Value: Equatable>(_ found: Value, _ expected: Value, _ what: String) throws {
        guard found == expected else {
            throw ContractViolation(description: "\(what): expected \(expected), found \(found)")
        }
    }

    static func event(_ outcome: EventOutcome, _ what: String) throws -> StoredEvent {
        switch outcome {
        case .stored(let event), .replayed(let event): return event
        case .keyReused, .sessionNotFound, .driverNotFound, .rateLimited, .failed:
            throw ContractViolation(description: "\(what): expected an event, found \(outcome)")
        }
    }
}
