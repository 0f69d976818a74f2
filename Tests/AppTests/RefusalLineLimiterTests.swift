// Tests of the limits on log lines about rejected requests, per client and in total. Every omitted line must be
// counted, and the number of remembered clients must stay bounded.

import HTTP1
import HTTPServer
import Logging
import StructuredLogging
import Synchronization
import Testing

@testable import App

@Suite struct RefusalLineLimiterTests {
    static let limits = RefusalLineLimiter.Limits(perClient: 3, total: 5)

    @Test func `a client has so many lines in a second, and the rest is counted`() {
        var limiter = RefusalLineLimiter(limits: Self.limits)
        let admitted = (0..<1000).count { _ in limiter.admits("192.0.2.1", .anonymous, at: 10) }
        #expect(admitted == 3)
        #expect(limiter.end(before: 10) == nil)
        #expect(
            limiter.end(before: 11)
                == RefusalLineLimiter.Omitted(count: 997, busiestClient: "192.0.2.1", busiestCount: 997))
        #expect(limiter.end(before: 11) == nil)
        // In the next second, the limit of three lines applies anew.
        #expect((0..<10).count { _ in limiter.admits("192.0.2.1", .anonymous, at: 11) } == 3)
    }

    @Test func `many clients share the total, and are not remembered beyond it`() {
        var limiter = RefusalLineLimiter(limits: Self.limits)
        let admitted = (0..<100_000).count { limiter.admits("client-\($0)", .anonymous, at: 1) }
        #expect(admitted == 5)
        #expect(limiter.clientCount == 5)
        #expect(limiter.end(before: 2)?.count == 99_995)
        #expect(limiter.clientCount == 0)
    }

    @Test func `a clock that is set back does not stop the lines until it reaches the old time again`() {
        var limiter = RefusalLineLimiter(limits: Self.limits)
        for _ in 0..<10 { _ = limiter.admits("192.0.2.1", .failure, at: 90_000) }
        #expect(limiter.end(before: 89_999) == nil, "a caller that read the clock just before")
        #expect(limiter.end(before: 3600)?.count == 7)
        #expect((0..<10).count { _ in limiter.admits("192.0.2.1", .failure, at: 3600) } == 3)
        #expect(limiter.end(before: 3601)?.count == 7)
    }

    @Test func `a flood by strangers takes no line from drivers and failures`() {
        var limiter = RefusalLineLimiter(limits: Self.limits)
        for number in 0..<1000 { _ = limiter.admits("client-\(number)", .anonymous, at: 1) }
        let driver = limiter.admits("driver", .signedIn, at: 1)
        let failure = limiter.admits("192.0.2.1", .failure, at: 1)
        let stranger = limiter.admits("192.0.2.1", .anonymous, at: 1)
        #expect(driver && failure && !stranger)
    }

    @Test func `what is left out is counted whatever clients and kinds come`() {
        var random = SystemRandomNumberGenerator()
        var limiter = RefusalLineLimiter(limits: Self.limits)
        var (calls, written, omitted) = (0, 0, 0)
        for second in Int64(0)..<20 {
            for _ in 0..<Int.random(in: 0..<200, using: &random) {
                omitted += limiter.end(before: second)?.count ?? 0
                let kind = RefusalLineLimiter.Kind.allCases.randomElement(using: &random) ?? .failure
                if limiter.admits("\(Int.random(in: 0..<8, using: &random))", kind, at: second) { written += 1 }
                calls += 1
            }
        }
        omitted += limiter.end(before: 20)?.count ?? 0
        #expect(written + omitted == calls)
        #expect(written <= 20 * RefusalLineLimiter.Kind.allCases.count * Self.limits.total)
    }
}

@Suite struct RequestLogTests {
    @Test func `every request that went well has its line, refused ones are bounded and counted`() {
        let lines = Lines()
        let now = Mutex<Int64>(5000)
        let log = RequestLog(
            logger: Logger(label: "test", level: .debug, lines), limits: RefusalLineLimiterTests.limits,
            driverName: { "hash-of-\($0)" }, clock: { now.withLock { $0 } })
        for number in 0..<200 {
            log.answered(.sample(status: .ok, id: "good-\(number)", principal: "anna"))
            log.answered(.sample(status: .notFound, id: "bad-\(number)"))
        }
        log.answered(.sample(status: .unauthorized, id: "reason", principal: "anna", reason: "expired"))
        now.withLock { $0 = 6000 }
        log.reportOmitted()
        log.reportOmitted()
        let written = lines.all
        #expect(written.count { $0.message == "request" && $0.metadata["status"] == "200" } == 200)
        #expect(written.count { $0.message == "request" && $0.metadata["status"] == "404" } == 3)
        #expect(written.contains { $0.metadata["request_id"] == "reason" && $0.metadata["reason"] == "expired" })
        let reports = written.filter { $0.message == "rejected requests omitted from the log" }
        #expect(reports.map { $0.metadata["count"] } == ["197"])
        #expect(reports.map { $0.metadata["busiest_client"] } == ["192.0.2.7"])
        #expect(!written.contains { $0.metadata.values.contains("anna") })
        #expect(
            written.filter { $0.metadata["driver"] == "hash-of-anna" }.count == 201,
            "a driver's lines have what stands for it")
        #expect(written.filter { $0.message == "request" }.allSatisfy { $0.metadata["method"] == "GET" })
    }
}

extension CompletedRequest {
    fileprivate static func sample(
        status: Status, id: String, principal: String? = nil, reason: String? = nil
    ) -> CompletedRequest {
        CompletedRequest(
            requestID: id, method: .get, routeTemplate: nil, status: status, durationNanoseconds: 1, bytesIn: 1,
            bytesOut: 1, remoteAddress: "192.0.2.7", principal: principal, refusalReason: reason)
    }
}

/// A record of what was logged.
final class Lines: Sendable {
    struct Line: Sendable {
        var level: Logger.Level
        var message: String
        var metadata: [String: String]
    }

    private let lines = Mutex<[Line]>([])

    var all: [Line] { lines.withLock { $0 } }

    fileprivate func append(_ line: Line) { lines.withLock { $0.append(line) } }
}

private struct LinesHandler: LogHandler {
    let lines: Lines
    var logLevel: Logger.Level
    var metadata: Logger.Metadata = [:]

    subscript(metadataKey key: String) -> Logger.MetadataValue? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    func log(event: LogEvent) {
        let metadata = (event.metadata ?? [:]).mapValues { "\($0)" }
        lines.append(Lines.Line(level: event.level, message: "\(event.message)", metadata: metadata))
    }
}

extension Logger {
    init(label: String, level: Logger.Level, _ lines: Lines) {
        self.init(label: label) { _ in LinesHandler(lines: lines, logLevel: level) }
    }
}
