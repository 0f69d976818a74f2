// The requirements on what a store does with stored events: the feed, the changes that cause notifications, retention,
// and the operator's lists. Each clause needs an empty store and uses only the store's ports.

package import Engine
import JourneyModel
import Logging
package import SharedTables

package enum EventTablesContract {
    package typealias Store = DeadlineStore & EventFeed & EventStore & JourneyReader & OperatorListReader
        & PushTables & RetentionStore & SettingsCorrecting & SettingsHistoryStore

    package struct Clause: Sendable, CustomStringConvertible {
        package var description: String
        package var check: @Sendable (any Store) async throws -> Void

        init(_ description: String, _ check: @escaping @Sendable (any Store) async throws -> Void) {
            self.description = description
            self.check = check
        }
    }

    package static let all: [Clause] = feed + push + retention + operatorLists

    static let day = 86_400

    static func expect<Value: Equatable>(_ found: Value, _ expected: Value, _ what: String) throws {
        try EventStoreContract.expect(found, expected, what)
    }

    @discardableResult
    static func post(
        _ submission: EventSubmission, of driver: DriverID, to store: any EventStore
    ) async throws -> StoredEvent {
        let request = AppendRequest.sample(submission, of: driver, receivedAt: submission.occurredAt)
        return try EventStoreContract.event(try await store.appended(request), "append")
    }

    /// Stores a journey of eight events, half a minute apart. The clock ends half a minute after the eighth event.
    static func drive(
        _ prefix: String, of driver: DriverID, _ clock: ManualClock, to store: any EventStore
    ) async throws {
        for event in SampleJourney.whole(prefix: prefix, session: "session-\(prefix)", from: clock.now) {
            try await post(event, of: driver, to: store)
            clock.advance(bySeconds: 30)
        }
    }
}
