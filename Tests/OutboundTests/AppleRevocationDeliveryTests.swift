// Tests that a revocation is retried until Apple confirms it, even while Apple or the queue is unavailable. A
// revocation that cannot be delivered must not delay others.

import Foundation
import Identity
import JourneyModel
import Logging
import Secrets
import Synchronization
import TestSupport
import Testing

@testable import Outbound

/// The store's queue of revocations, in memory.
private final class MemoryQueue: AppleRevocationQueue {
    struct Entry {
        var revocation: AppleRevocation
        var due: Moment
    }

    private let entries = Mutex<[Entry]>([])
    private let isAway = Mutex(false)

    func add(_ id: Int64, token: String? = nil, due: Moment) throws {
        let sealed = token.flatMap { seal.seal(Secret($0), of: owner) } ?? [1, 2, 3]
        let revocation = AppleRevocation(
            id: id, clientID: "org.example.chargers", sealedRefreshToken: sealed, subjectDigest: owner, attemptCount: 0)
        entries.withLock { $0.append(Entry(revocation: revocation, due: due)) }
    }

    var left: [Int64] { entries.withLock { $0.map(\.revocation.id) } }

    func attemptCount(_ id: Int64) -> Int? {
        entries.withLock { $0.first { $0.revocation.id == id }?.revocation.attemptCount }
    }

    func goAway(_ away: Bool) { isAway.withLock { $0 = away } }

    private func checkAway() throws(AccountFailure) {
        guard !isAway.withLock({ $0 }) else { throw .unavailable("away") }
    }

    func nextDue(at now: Moment) async throws(AccountFailure) -> AppleRevocation? {
        try checkAway()
        return entries.withLock { $0.filter { $0.due <= now }.min { $0.due < $1.due }?.revocation }
    }

    func delivered(_ id: Int64, at now: Moment) async throws(AccountFailure) {
        try checkAway()
        entries.withLock { $0.removeAll { $0.revocation.id == id } }
    }

    func failed(_ id: Int64, tryAgainAt: Moment) async throws(AccountFailure) {
        try checkAway()
        entries.withLock { entries in
            guard let place = entries.firstIndex(where: { $0.revocation.id == id }) else { return }
            entries[place].due = tryAgainAt
            entries[place].revocation.attemptCount += 1
        }
    }
}

@Suite(.timeLimit(.minutes(1))) struct AppleRevocationDeliveryTests {
    private let clock = ManualClock()
    private let queue = MemoryQueue()

    private func delivery(_ http: OutgoingHTTP, _ url: URL) async throws -> AppleRevocationDelivery {
        AppleRevocationDelivery(
            queue: queue, apple: try await endpoint(http, url, clock: clock), clock: { [clock] in clock.now },
            logger: Logger(label: "test", factory: { _ in SwiftLogNoOpLogHandler() }))
    }

    @Test func allThatIsDueIsDeliveredOnceTheFirstFirst() async throws {
        try queue.add(1, token: "second", due: clock.now)
        try queue.add(2, token: "first", due: clock.now.advanced(bySeconds: -5))
        try queue.add(3, token: "later", due: clock.now.advanced(bySeconds: 1))
        try await LoopbackServer.with(.always(.answer(200))) { server, url, http in
            let delivery = try await delivery(http, url)
            for _ in 0..<3 { #expect(await delivery.deliverDue() == nil) }
            #expect(server.requests.map { $0.form["token"] } == ["first", "second"])
            #expect(queue.left == [3])
        }
    }

    @Test func appleAwayAndBack() async throws {
        try queue.add(1, token: "token", due: clock.now)
        let isBack = Mutex(false)
        try await LoopbackServer.with(.each { _, _ in isBack.withLock { $0 } ? .answer(200) : .answer(503) }) {
            server, url, http in
            let delivery = try await delivery(http, url)
            for (index, seconds) in [2, 4, 8, 16].enumerated() {
                #expect(await delivery.deliverDue() == "status_503")
                #expect(queue.attemptCount(1) == index + 1)
                clock.advance(byMilliseconds: Int64(seconds) * 1000 - 1)
                #expect(await delivery.deliverDue() == nil)
                #expect(queue.attemptCount(1) == index + 1)
                clock.advance(byMilliseconds: 1)
            }
            isBack.withLock { $0 = true }
            #expect(await delivery.deliverDue() == nil)
            #expect(queue.left == [])
            #expect(server.requests.count == 5)
        }
    }

    @Test func pausesGrowToAnHour() {
        #expect(
            (1...14).map(AppleRevocationDelivery.retrySeconds) == [
                2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 3600, 3600, 3600,
            ])
        #expect(AppleRevocationDelivery.retrySeconds(afterFailures: .max) == 3600)
    }

    @Test func oneThatCannotBeOpenedKeepsNoOtherWaiting() async throws {
        try queue.add(1, due: clock.now.advanced(bySeconds: -1))
        try queue.add(2, token: "token", due: clock.now)
        try await LoopbackServer.with(.always(.answer(200))) { server, url, http in
            let failure = try await delivery(http, url).deliverDue()
            #expect(failure == "sealed_with_another_DATA_KEY")
            #expect(server.requests.map { $0.form["token"] } == ["token"])
            #expect(queue.left == [1])
        }
    }

    @Test func aTokenThatAppleDoesNotKnowIsDone() async throws {
        try queue.add(1, token: "token", due: clock.now)
        try await LoopbackServer.with(.always(.answer(400, #"{"error":"invalid_grant"}"#))) { _, url, http in
            let failure = try await delivery(http, url).deliverDue()
            #expect(failure == nil)
            #expect(queue.left == [])
        }
    }

    @Test func aQueueThatCannotBeReadIsAskedAgain() async throws {
        try queue.add(1, token: "token", due: clock.now)
        try await LoopbackServer.with(.always(.answer(200))) { server, url, http in
            let delivery = try await delivery(http, url)
            queue.goAway(true)
            #expect(await delivery.deliverDue() != nil)
            queue.goAway(false)
            #expect(await delivery.deliverDue() == nil)
            #expect(server.requests.count == 1)
            #expect(queue.left == [])
        }
    }

    @Test func runDeliversUntilItIsCancelled() async throws {
        try queue.add(1, token: "token", due: clock.now)
        try await LoopbackServer.with(.always(.answer(200))) { server, url, http in
            let delivery = try await delivery(http, url)
            let run = Task { await delivery.run() }
            await server.waitForRequests(1)
            while !queue.left.isEmpty { try await Task.sleep(for: .milliseconds(1)) }
            run.cancel()
            await run.value
        }
    }
}
