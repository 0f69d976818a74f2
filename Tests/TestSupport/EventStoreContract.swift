// What every `EventStore` has to do, as functions that exercise one through its port and nothing else. Expectations
// come from the contract, sections 1 and 3, and from the doc comments of the port. A test target runs all of them:
//
//     @Test(arguments: EventStoreContract.all)
//     func `keeps the contract`(_ clause: EventStoreContract.Clause) async throws {
//         try await clause.check(store)
//     }
//
// A clause uses drivers, keys and sessions of its own, so that all of them may run against one store.

package import Engine
import JourneyModel

/// What a store did that it must not.
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

    package static let all: [Clause] = repeats + sessions + order + groups

    /// Throws unless `found` is `expected`.
    static func expect<Value: Equatable>(_ found: Value, _ expected: Value, _ what: String) throws {
        guard found == expected else {
            throw ContractViolation(description: "\(what): expected \(expected), found \(found)")
        }
    }

    /// The event that a stored or replayed outcome carries.
    static func event(_ outcome: EventOutcome, _ what: String) throws -> StoredEvent {
        switch outcome {
        case .stored(let event), .replayed(let event): return event
        case .keyReused, .sessionNotFound, .rateLimited, .failed:
            throw ContractViolation(description: "\(what): expected an event, found \(outcome)")
        }
    }
}
