// Tests the delivery of sign-in codes. A request for a code does not wait for the code's delivery. The delivery is
// retried until the code expires.
//
// The number of waiting codes is bounded. At shutdown, each waiting code gets one last attempt and is then dropped. No
// log line contains a code.

import Foundation
import Identity
import JourneyModel
import Logging
import Secrets
import StructuredLogging
import Synchronization
import TestSupport
import Testing

@testable import Outbound

@Suite(.timeLimit(.minutes(1))) struct WebhookCodeDeliveryTests {
    private let clock = ManualClock()
    private let log = LoggedLines()

    /// Runs the body with a `WebhookCodeDelivery` whose server follows the script.
    private func with(
        _ script: LoopbackServer.Script,
        _ body: @escaping (WebhookCodeDelivery, LoopbackServer, _ run: Task<Void, Never>) async throws -> Void
    ) async throws {
        try await LoopbackServer.with(script) { server, url, http in
            let delivery = WebhookCodeDelivery(
                webhook: CodeWebhook(http: http, url: url, secret: Secret("a webhook secret")),
                clock: { [clock] in clock.now }, logger: log.logger, firstPauseMilliseconds: 1)
            let run = Task { await delivery.run() }
            try await body(delivery, server, run)
            run.cancel()
            await run.value
        }
        for line in log.lines { #expect(!line.contains("012345") && !line.contains("4915112345678"), "\(line)") }
    }

    @Test func aFailedCallIsRepeatedWithTheSameCode() async throws {
        let behaviours: [Behaviour] = [.answer(500), .answer(429), .answer(302, fields: "Location: /x\r\n"), .text("")]
        try await with(.each { _, number in number <= behaviours.count ? behaviours[number - 1] : .answer(200) }) {
            delivery, server, run in
            delivery.deliver(code())
            await server.waitForRequests(5)
            run.cancel()
            await run.value
            #expect(Set(server.requests.map(\.text)).count == 1)
            #expect(server.requests.count == 5)
        }
        #expect(log.lines.count == 1, "a failure that lasts is told once: \(log.lines)")
    }

    @Test func aRefusedCallIsNot() async throws {
        try await with(.each { request, _ in .answer(request.text.contains("012345") ? 400 : 200) }) {
            delivery, server, run in
            delivery.deliver(code())
            await server.waitForRequests(1)
            delivery.deliver(code("543210"))
            await server.waitForRequests(2)
            run.cancel()
            await run.value
            #expect(server.requests.count == 2)
        }
        #expect(log.lines == ["error one-time code webhook rejected a request [\"status\": 400]"])
    }

    @Test func aCodeThatExpiredIsGivenUp() async throws {
        try await with(
            .each { [clock] _, number in
                if number == 3 { clock.advance(bySeconds: 600) }
                return .answer(503)
            }
        ) { delivery, server, run in
            delivery.deliver(code())
            await server.waitForRequests(3)
            while !log.lines.contains(where: { $0.contains("expired") }) { await Task.yield() }
            #expect(server.requests.count == 3)
        }
    }

    @Test func aCodeFromBeforeTheClockWasSetBackIsGivenUp() async throws {
        try await with(
            .each { [clock] _, _ in
                clock.advance(bySeconds: -86_400)
                return .answer(503)
            }
        ) { delivery, server, _ in
            delivery.deliver(code())
            await server.waitForRequests(1)
            while !log.lines.contains(where: { $0.contains("expired") }) { await Task.yield() }
            #expect(server.requests.count == 1)
        }
    }

    @Test func aNewerCodeOfTheNumberStopsTheOlder() async throws {
        let isUp = Mutex(false)
        try await with(.each { request, _ in isUp.withLock { $0 } ? .answer(200) : .answer(503) }) {
            delivery, server, run in
            delivery.deliver(code())
            await server.waitForRequests(2)
            delivery.deliver(code("543210"))
            delivery.deliver(code("111111", phone: "+4915100000000"))
            while !server.requests.contains(where: { $0.text.contains("543210") }) {
                try await Task.sleep(for: .milliseconds(5))
            }
            isUp.withLock { $0 = true }
            run.cancel()
            await run.value
            let last = server.requests.suffix(2).map(\.text)
            #expect(last.contains { $0.contains("111111") })
            let firstOfNew = try #require(server.requests.firstIndex { $0.text.contains("543210") })
            // The second code for this phone number replaces the first. A call with the first code may already be in
            // progress, so that code may arrive once more.
            #expect(server.requests[firstOfNew...].filter { $0.text.contains("012345") }.count <= 1)
        }
    }

    @Test func deliverReturnsWhateverTheWebhookDoes() async throws {
        try await with(.always(.stall())) { delivery, server, run in
            for number in 0..<20 { delivery.deliver(code(phone: "+491511234567\(number)")) }
            await server.waitForRequests(1)
        }
        #expect(log.lines.contains { $0.contains("left undelivered") && $0.contains("20") })
    }

    @Test func `the age of what waits is the oldest code's, until it is delivered`() async throws {
        let isUp = Mutex(false)
        try await with(.each { request, _ in isUp.withLock { $0 } ? .answer(200) : .answer(503) }) {
            delivery, server, _ in
            #expect(delivery.oldestWaitingSince == nil)
            delivery.deliver(code())
            delivery.deliver(code(phone: "+4915100000000"))
            await server.waitForRequests(2)
            #expect(delivery.oldestWaitingSince == code().issuedAt && delivery.codesWaiting == 2)
            isUp.withLock { $0 = true }
            while delivery.codesWaiting > 0 { await Task.yield() }
            #expect(delivery.oldestWaitingSince == nil)
        }
    }

    @Test func whatIsTooMuchIsDropped() async throws {
        try await LoopbackServer.with(.always(.answer(200))) { _, url, http in
            let delivery = WebhookCodeDelivery(
                webhook: CodeWebhook(http: http, url: url, secret: Secret("a webhook secret")),
                clock: { [clock] in clock.now }, logger: log.logger)
            for _ in 0..<WebhookCodeDelivery.codesMax { delivery.deliver(code()) }
            #expect(log.lines.isEmpty)
            delivery.deliver(code())
            #expect(log.lines.count == 1)
        }
    }

    // MARK: Shutdown

    @Test func whatIsLeftIsTriedOnceMoreAtTheEnd() async throws {
        let isUp = Mutex(false)
        try await LoopbackServer.with(.each { _, _ in isUp.withLock { $0 } ? .answer(200) : .answer(503) }) {
            server, url, http in
            let delivery = WebhookCodeDelivery(
                webhook: CodeWebhook(http: http, url: url, secret: Secret("a webhook secret")),
                clock: { [clock] in clock.now }, logger: log.logger, firstPauseMilliseconds: 3_600_000)
            let run = Task { await delivery.run() }
            delivery.deliver(code())
            await server.waitForRequests(1)
            isUp.withLock { $0 = true }
            run.cancel()
            await run.value
            #expect(server.requests.count == 2)
        }
        #expect(!log.lines.contains { $0.contains("undelivered") })
    }

    @Test func anEndWithNothingToDoIsAtOnce() async throws {
        try await with(.always(.answer(200))) { _, _, run in
            run.cancel()
            await run.value
        }
        #expect(log.lines.isEmpty)
    }
}

@Suite struct LoggedCodeDeliveryTests {
    @Test func codeAndNumberStandInTheLog() {
        let log = LoggedLines()
        LoggedCodeDelivery(logger: log.logger).deliver(code())
        #expect(log.lines.count == 1)
        #expect(log.lines[0].contains("012345") && log.lines[0].contains("+4915112345678"))
    }
}
