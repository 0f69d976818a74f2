// Tests of the sender: order, concurrency, and what becomes of an entry after each outcome.

import Engine
import Identity
import JourneyModel
import Logging
import TestSupport
import Testing

@testable import Push

@Suite struct PushSenderTests {
    private let store = ScriptedPushStore()
    private let delivery = ScriptedDelivery()
    private let clock = ManualClock()
    private let sender: PushSender

    init() {
        sender = PushSender(
            store: store, delivery: delivery, texts: CurrentPushTexts(), clock: { [clock] in clock.now },
            logger: .silent)
    }

    private func add(
        _ id: Int64, device: Int64 = 1, kind: PushKind = .alert(.sessionActive), dueIn seconds: Int = 0,
        expiresIn: Int = 600, isRunning: Bool = true, isInOtherSession: Bool = false,
        preferences: NotificationPreferences = .init()
    ) {
        let push = DuePush(
            id: id,
            entry: PushEntry(
                driver: 1, device: device, session: .row(1), kind: kind, state: .sessionActive, endedBy: nil,
                deadline: nil,
                dueAt: clock.now.advanced(bySeconds: seconds), expiresAt: clock.now.advanced(bySeconds: expiresIn)),
            sessionID: "s\(id)",
            device: Device(
                pushToken: "device\(device)", platform: "ios", environment: "sandbox", appVersion: nil,
                push: PushSettings(notifications: preferences, liveActivityToken: "activity\(device)")),
            attemptCount: 0, isDeadlineRunning: isRunning, isInOtherSession: isInOtherSession)
        store.set { $0.outbox.append(push) }
    }

    /// Runs rounds until every outcome is written and nothing more is due. After each round, advances the clock so far
    /// that the sender writes the outcomes.
    ///
    /// The clock must not advance while a notification is being sent. If the clock passed the end of the entry's lease
    /// during a slow send, the entry would be sent twice.
    private func settle() async throws {
        for _ in 0..<2000 {
            await sender.round()
            while await sender.inFlightCount > 0 { await Task.yield() }
            clock.advance(byMilliseconds: PushSender.commitMilliseconds)
            if await sender.isIdle, !store.hasDue(at: clock.now) { return }
            await Task.yield()
        }
        Issue.record("the sender does not come to rest")
    }

    private var results: [PushResult.Change] { store.state.results.flatMap { $0 }.map(\.change) }

    @Test func `a delivered notification leaves the outbox`() async throws {
        add(1)
        try await settle()
        #expect(delivery.tokens == ["device1"])
        #expect(results == [.remove])
    }

    @Test func `the notifications of a device arrive one after the other, in order`() async throws {
        for id in 1...20 { add(Int64(id), device: Int64(id % 2)) }
        try await settle()
        for device in 0...1 {
            let order = delivery.state.sent.filter { $0.token == "device\(device)" }.compactMap(\.collapseID)
            #expect(order == (1...20).filter { $0 % 2 == device }.map { "s\($0)" })
        }
    }

    @Test func `many devices are sent to at once, up to the limit`() async throws {
        delivery.hold()
        for id in 1...700 { add(Int64(id), device: Int64(id)) }
        await sender.round()
        while delivery.state.inFlight < PushSender.inFlightMax { await Task.yield() }
        for _ in 0..<50 {
            await sender.round()
            await Task.yield()
        }
        #expect(delivery.state.inFlightMost == PushSender.inFlightMax)
        delivery.release()
        try await settle()
        #expect(Set(delivery.tokens).count == 700 && delivery.tokens.count == 700)
        #expect(store.state.results.count < 200, "outcomes are written in groups")
    }

    @Test func `a lease lasts for the longest wait, the longest attempt and the writing of the outcome`() {
        #expect(sender.leaseSeconds >= PushSender.waitSecondsMax + delivery.attemptSecondsMax + 1)
    }

    @Test func `an entry that waited too long is read again before it is sent`() async throws {
        delivery.hold()
        for id in 1...(PushSender.inFlightMax + 1) { add(Int64(id), device: Int64(id)) }
        await sender.round()
        while delivery.state.inFlight < PushSender.inFlightMax { await Task.yield() }
        // This round reads the last entry. The entry must wait, because `inFlightMax` notifications are being sent.
        await sender.round()
        clock.advance(bySeconds: PushSender.waitSecondsMax + 1)
        delivery.release()
        while await sender.inFlightCount > 0 { await Task.yield() }
        #expect(delivery.tokens.count == PushSender.inFlightMax)
        try await settle()
        #expect(Set(delivery.tokens).count == PushSender.inFlightMax + 1)
        #expect(delivery.tokens.count == PushSender.inFlightMax + 1)
        #expect(results.filter { $0 != .remove } == [.putBack])
    }

    @Test func `a store that is slow to read delays notifications, but does not hold them back`() async throws {
        store.set { state in
            state.whenTaken = { [clock] in clock.advance(bySeconds: PushSender.waitSecondsMax + 1) }
        }
        add(1)
        await sender.round()
        while delivery.tokens.isEmpty, await sender.inFlightCount > 0 { await Task.yield() }
        #expect(delivery.tokens == ["device1"])
        store.set { $0.whenTaken = nil }
        try await settle()
        #expect(delivery.tokens == ["device1"])
        #expect(results == [.remove])
    }

    @Test func `a read of the outbox that the shutdown cancels is not logged`() async {
        let log = LoggedLines()
        let sender = PushSender(
            store: store, delivery: delivery, texts: CurrentPushTexts(), clock: { [clock] in clock.now },
            logger: log.logger)
        store.set { $0.failure = .cancelled }
        await sender.round()
        #expect(log.lines.isEmpty)
    }

    @Test func `an unavailable service is asked again, later each time, and in order`() async throws {
        add(1)
        add(2)
        delivery.answer { _ in .unavailable(reason: "503", afterSeconds: nil) }
        try await settle()
        #expect(delivery.tokens == ["device1"])
        guard case .retry(let next) = try #require(results.first) else {
            Issue.record("no retry")
            return
        }
        #expect(next > clock.now.advanced(byMilliseconds: -500))
        #expect(next < clock.now.advanced(bySeconds: 2))
        delivery.answer { _ in .delivered }
        clock.advance(bySeconds: 2)
        try await settle()
        #expect(delivery.state.sent.compactMap(\.collapseID) == ["s1", "s1", "s2"])
    }

    @Test func `pauses double up to a minute, with jitter, and obey the service`() {
        for (failures, seconds) in [(0, 1), (1, 2), (5, 32), (6, 60), (100, 60)] {
            let pause = PushSender.retryMilliseconds(failures, atLeastSeconds: nil)
            #expect(pause >= Int64(seconds) * 1000 && pause <= Int64(seconds) * 1500)
        }
        #expect(PushSender.retryMilliseconds(0, atLeastSeconds: 90) >= 90_000)
        #expect(PushSender.retryMilliseconds(100, atLeastSeconds: .max) <= PushSender.retryMillisecondsMax)
    }

    @Test func `what cannot be delivered before it is worthless is dropped`() async throws {
        add(1, expiresIn: 0)
        add(2, device: 2, expiresIn: 30)
        delivery.answer { _ in .unavailable(reason: "429", afterSeconds: 60) }
        try await settle()
        #expect(delivery.tokens == ["device2"])
        #expect(results == [.remove, .remove])
    }

    @Test func `a warning whose deadline no longer runs is not sent`() async throws {
        add(1, kind: .alert(.graceEnding), isRunning: false)
        add(2, device: 2, kind: .alert(.graceEnding), isRunning: true)
        try await settle()
        #expect(delivery.tokens == ["device2"])
    }

    @Test func `a Live Activity is not told about an earlier session once another one has begun`() async throws {
        add(1, kind: .activityEnd, isInOtherSession: true)
        add(2, kind: .activityUpdate, isInOtherSession: true)
        add(3, kind: .activityUpdate)
        add(4, device: 2, isInOtherSession: true)
        try await settle()
        #expect(delivery.tokens.sorted() == ["activity1", "device2"])
        #expect(results == [.remove, .remove, .remove, .remove])
    }

    @Test func `an alert that was turned off meanwhile is not sent, a background push is`() async throws {
        let quiet = NotificationPreferences(isQuiet: true)
        add(1, preferences: quiet)
        add(2, kind: .wake, preferences: quiet)
        try await settle()
        #expect(delivery.state.sent.map(\.kind) == [.background])
    }

    @Test func `an unregistered device is removed if it registered before`() async throws {
        let since = clock.now.advanced(bySeconds: -5)
        let begin = clock.now
        add(1, device: 1)
        add(2, device: 2)
        delivery.answer { .unregistered(since: $0.token == "device1" ? since : nil) }
        try await settle()
        #expect(
            Set(results) == [.removeDevice(registeredBefore: since), .removeDevice(registeredBefore: begin)])
    }

    @Test func `an update token that is over is removed, and the device stays`() async throws {
        add(1, kind: .activityUpdate)
        add(2, device: 2, kind: .activityEnd)
        delivery.answer { $0.token == "activity1" ? .unregistered(since: nil) : .delivered }
        try await settle()
        #expect(
            Set(results) == [.removeLiveActivity(token: "activity1"), .removeLiveActivity(token: "activity2")])
    }

    @Test func `a refused notification is dropped`() async throws {
        add(1)
        delivery.answer { _ in .refused(reason: "BadDeviceToken") }
        try await settle()
        #expect(results == [.remove])
    }

    @Test func `outcomes that cannot be written are written later, and nothing is sent twice`() async throws {
        add(1)
        await sender.round()
        while delivery.state.inFlight > 0 || delivery.tokens.isEmpty { await Task.yield() }
        store.set { $0.failure = .unavailable("disk") }
        for _ in 0..<10 {
            clock.advance(byMilliseconds: 500)
            await sender.round()
            await Task.yield()
        }
        store.set { $0.failure = nil }
        clock.advance(bySeconds: 2)
        try await settle()
        #expect(delivery.tokens == ["device1"])
        #expect(results == [.remove])
    }

    @Test func `after an outage longer than a lease, nothing is sent twice`() async throws {
        add(1)
        await sender.round()
        while delivery.state.inFlight > 0 || delivery.tokens.isEmpty { await Task.yield() }
        store.set { $0.failure = .unavailable("disk") }
        for _ in 0..<(2 * sender.leaseSeconds) {
            clock.advance(bySeconds: 1)
            await sender.round()
        }
        store.set { $0.failure = nil }
        clock.advance(bySeconds: 2)
        try await settle()
        #expect(delivery.tokens == ["device1"])
        #expect(results == [.remove])
    }

    @Test func `after the clock was set back, the outbox is read and outcomes are written as before`() async throws {
        delivery.hold()
        add(1)
        await sender.round()
        while delivery.state.inFlight == 0 { await Task.yield() }
        delivery.release()
        while await sender.inFlightCount > 0 { await Task.yield() }
        // The outcome is not written yet, and the next read of the outbox is due only after a pause.
        clock.advance(bySeconds: -86_400)
        add(2, device: 2)
        try await settle()
        #expect(delivery.tokens == ["device1", "device2"])
        #expect(results == [.remove, .remove])
    }

    @Test func `after the store failed and the clock was set back, outcomes are written at once`() async throws {
        add(1)
        await sender.round()
        while await sender.inFlightCount > 0 { await Task.yield() }
        store.set { $0.failure = .unavailable("disk") }
        clock.advance(byMilliseconds: PushSender.commitMilliseconds)
        await sender.round()
        store.set { $0.failure = nil }
        clock.advance(bySeconds: -86_400)
        await sender.round()
        #expect(results == [.remove])
    }

    @Test func `a notification for later waits`() async throws {
        add(1, dueIn: 60)
        add(2)
        try await settle()
        #expect(delivery.state.sent.compactMap(\.collapseID) == ["s2"])
        clock.advance(bySeconds: 60)
        try await settle()
        #expect(delivery.state.sent.compactMap(\.collapseID) == ["s2", "s1"])
    }
}
