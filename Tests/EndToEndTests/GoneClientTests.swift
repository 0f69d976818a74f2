// Tests in which a phone's connection breaks while its event waits for the rate limiter or the disk. The wait ends, the
// event is stored exactly once, and a repeat of the request gets the stored result.
//
// Also tests that a broken stream of changes no longer counts against the driver's limit of open streams.

import Engine
import JourneyModel
import RateLimiting
import SQLiteStore
import Synchronization
import TestSupport
import Testing

@testable import Sockets

#if canImport(Glibc)
    import Glibc
#endif

@Suite(.timeLimit(.minutes(1))) struct GoneClientTests {
    private static let driver = DriverID("cut-off")

    @Test(arguments: [true, false])
    func `its event is stored once, whether it waited for the limiter or for the disk`(atLimiter: Bool) async throws {
        let admission = WaitingAdmission(waits: atLimiter)
        let server = try await ServedDwell.start(clock: ManualClock(), admission: admission)
        let clients = try EventLoopGroup(count: 1, syscalls: .resetting)
        let request = try await post(server)

        let client = try await Connection.connect(to: server.address, on: clients.next(), until: .inSeconds(10))
        try await client.write(request)
        await admission.wasAsked()
        client.close()

        // The request is sent again at once. If the writer already has the first request's event, it stores that event
        // first, because it works in order of arrival.
        let again = try await Connection.connect(to: server.address, on: clients.next(), until: .inSeconds(10))
        admission.waits.store(false, ordering: .relaxed)
        try await again.write(request)
        let answer = String(decoding: try await again.read(until: .inSeconds(10)), as: UTF8.self)
        #expect(answer.hasPrefix("HTTP/1.1 200 "), "\(answer)")
        let result = #""event_id":"cut-off-1","session":{"state":"NEAR_CHARGER","transition":"applied"}}"#
        #expect(answer.hasSuffix(result), "\(answer)")
        if atLimiter { #expect(await admission.wasCancelled()) }
        try await again.write(request)
        let repeated = String(decoding: try await again.read(until: .inSeconds(10)), as: UTF8.self)
        #expect(repeated.contains("\r\nIdempotent-Replayed: true\r\n"), "\(repeated)")
        #expect(repeated.hasSuffix(#"{"status":"already_processed","# + result), "\(repeated)")
        #expect(try await server.store.eventCount() == 1)
        again.close()
        await clients.shutdown()
        await server.stop()
    }

    @Test func `a stream that is cut off gives its place back before the next heartbeat`() async throws {
        let server = try await ServedDwell.start(clock: ManualClock())
        let token = try await server.token(of: Self.driver)
        let request = "GET /native/session/stream HTTP/1.1\r\nHost: d\r\nAuthorization: Bearer \(token)\r\n\r\n"
        // The first client resets its connection, and the second client closes its connection normally. Until the
        // server writes, a normal close looks as if the client had only stopped sending.
        for syscalls in [Syscalls.resetting, .system] {
            let clients = try EventLoopGroup(count: 1, syscalls: syscalls)
            let client = try await Connection.connect(to: server.address, on: clients.next(), until: .inSeconds(10))
            try await client.write(Array(request.utf8))
            let answer = String(decoding: try await client.read(until: .inSeconds(10)), as: UTF8.self)
            #expect(answer.hasPrefix("HTTP/1.1 200 "), "\(answer)")
            #expect(server.streams.count == 1)
            client.close()
            let begin = ContinuousClock.now
            while server.streams.count > 0 { try await Task.sleep(for: .milliseconds(5)) }
            // The next heartbeat would be sent only after fifteen seconds.
            #expect(ContinuousClock.now - begin < .seconds(10))
            await clients.shutdown()
        }
        await server.stop()
    }

    private func post(_ server: ServedDwell) async throws -> [UInt8] {
        let body =
            #"{"event_id":"cut-off-1","event":"enteredChargerIntentZone","charger_id":"c","#
            + #""occurred_at":"2026-11-16T20:00:00.000Z"}"#
        return Array(
            ("POST /native/events HTTP/1.1\r\nHost: d\r\nContent-Type: application/json\r\n"
                + "Authorization: Bearer \(try await server.token(of: Self.driver))\r\n"
                + "Content-Length: \(body.utf8.count)\r\n\r\n\(body)").utf8)
    }
}

/// Admits every event. While `waits` is true, it first waits for an hour or until the task is cancelled. This imitates
/// a limiter whose Redis does not respond.
private final class WaitingAdmission: Admission {
    let waits: Atomic<Bool>
    private let process = LocalRateLimiter(limits: RateLimits(sessionEvents: 0, preSessionEvents: 0))
    private let asked = AsyncStream<Void>.makeStream()
    private let cancelled = AsyncStream<Bool>.makeStream()

    init(waits: Bool) { self.waits = Atomic(waits) }

    func wasAsked() async { for await _ in asked.stream { break } }

    func wasCancelled() async -> Bool {
        for await wasCancelled in cancelled.stream { return wasCancelled }
        return false
    }

    func admit(_ claim: AdmissionClaim) async -> AdmissionDecision {
        let waits = waits.load(ordering: .relaxed)
        asked.continuation.yield()
        if waits {
            cancelled.continuation.yield((try? await Task.sleep(for: .seconds(3600))) == nil)
        }
        return await process.admit(claim)
    }

    func quota(of driver: DriverID, in limitClass: RateLimitClass) -> Quota {
        process.quota(of: driver, in: limitClass)
    }

    func recordStored(_ claim: AdmissionClaim, isRepeat: Bool) { process.recordStored(claim, isRepeat: isRepeat) }
    func forceCharge(_ claim: AdmissionClaim) { process.forceCharge(claim) }
    func refund(_ claim: AdmissionClaim) { process.refund(claim) }
    func charge(_ claim: AdmissionClaim, times: Int) { process.charge(claim, times: times) }
    func isOverdrawn(by driver: DriverID, in limitClass: RateLimitClass) -> Bool {
        process.isOverdrawn(by: driver, in: limitClass)
    }
}

extension Syscalls {
    /// System calls with a `close` that resets the connection.
    fileprivate static let resetting: Syscalls = {
        var calls = Syscalls.system
        calls.close = { descriptor in
            var option = linger(l_onoff: 1, l_linger: 0)
            setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &option, socklen_t(MemoryLayout<linger>.size))
            return Syscalls.system.close(descriptor)
        }
        return calls
    }()
}
