// Tests of the consumer of committed events: the positions that it stores and the entries that it queues.

import Engine
import Identity
import JourneyModel
import Logging
import TestSupport
import Testing

@testable import Push

@Suite struct PushConsumerTests {
    private let store = ScriptedPushStore()
    private let clock = ManualClock()

    private var consumer: PushConsumer {
        PushConsumer(store: store, platforms: ["ios"], clock: { [clock] in clock.now }, logger: .silent)
    }

    private func change(at moment: Moment, platform: String = "ios") -> PushChange {
        PushChange(
            driver: 1, before: PushChange.Phase(), after: .init(state: .sessionActive, session: .row(2)),
            occurredAt: moment, isByServer: false,
            devices: [PushTarget(device: 3, platform: platform, hasLiveActivity: false, preferences: .init())])
    }

    @Test func `a change is queued once, with the position`() async throws {
        store.set { $0.position = 10 }
        store.set { $0.changes = [(12, change(at: clock.now))] }
        store.set { $0.newest = 14 }
        var position = PushConsumer.Position()
        #expect(try await !consumer.round(&position))
        #expect(try await !consumer.round(&position))
        #expect(store.state.queued.map(\.kind.word) == ["session_active"])
        #expect(store.state.position == 14)
        #expect(position.last == 14)
    }

    @Test func `a device whose service is not configured gets nothing`() async throws {
        store.set { ($0.newest, $0.changes) = (1, [(1, change(at: clock.now, platform: "android"))]) }
        var position = PushConsumer.Position()
        _ = try await consumer.round(&position)
        #expect(store.state.queued == [])
    }

    @Test func `only events received in the last minute are read`() async throws {
        store.set { $0.newest = 3 }
        var position = PushConsumer.Position()
        _ = try await consumer.round(&position)
        #expect(store.state.since == clock.now.advanced(bySeconds: -60))
    }

    @Test func `the position is stored every ten seconds if nothing is queued`() async throws {
        store.set { ($0.position, $0.newest) = (0, 5) }
        var position = PushConsumer.Position()
        _ = try await consumer.round(&position)
        #expect(store.state.position == 0 && position.last == 5)
        clock.advance(bySeconds: 10)
        store.set { $0.newest = 6 }
        _ = try await consumer.round(&position)
        #expect(store.state.position == 6)
    }

    @Test func `after the clock was set back, the position is stored as before`() async throws {
        store.set { ($0.position, $0.newest) = (0, 5) }
        var position = PushConsumer.Position()
        _ = try await consumer.round(&position)
        clock.advance(bySeconds: -86_400)
        store.set { $0.newest = 6 }
        _ = try await consumer.round(&position)
        #expect(store.state.position == 6)
    }

    @Test func `events that another server has queued are not queued again`() async throws {
        store.set { ($0.position, $0.newest) = (0, 5) }
        var position = PushConsumer.Position()
        _ = try await consumer.round(&position)
        store.set { ($0.position, $0.newest, $0.changes) = (7, 8, [(7, change(at: clock.now))]) }
        #expect(try await consumer.round(&position))
        #expect(store.state.queued == [])
        #expect(try await !consumer.round(&position))
        #expect(store.state.queued == [])
        #expect(position.last == 8)
    }

    @Test func `a failure of the store loses nothing`() async throws {
        store.set { ($0.position, $0.newest, $0.changes) = (0, 1, [(1, change(at: clock.now))]) }
        store.set { $0.failure = .unavailable("disk") }
        var position = PushConsumer.Position()
        await #expect(throws: StoreFailure.unavailable("disk")) { try await consumer.round(&position) }
        store.set { $0.failure = nil }
        _ = try await consumer.round(&position)
        #expect(store.state.queued.count == 1)
    }
}
