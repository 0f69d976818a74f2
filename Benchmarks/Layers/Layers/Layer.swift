// The layers that a posted event passes through. Each layer is measured alone, on input such as a phone sends.

import Engine
import Foundation
import HTTP1
import HTTPServer
import Identity
import JourneyModel
import RateLimiting
import SQLiteStore
import Secrets

struct Layer: Sendable {
    var name: String
    /// The operations of one round: enough to measure the time, and few enough for `make test`.
    var operations: Int
    /// Runs one round. Create its input earlier, so that creating the input is not measured.
    var run: @Sendable (_ round: Int, _ operations: Int) async throws -> Void
    /// Deletes what the rounds left behind.
    var cleanUp: @Sendable () -> Void = {}

    static func all() async throws -> [Layer] {
        [parse, route, try await token(), decode, fold, encode, admission(), try append()]
    }

    /// Reads a request up to its end, and encodes the response. Like a phone, sends all requests on one connection.
    static let parse = Layer(name: "parse", operations: 5000) { _, operations in
        let bytes = Sample.request
        let body = Sample.answer.encoded()
        let fields = Fields([("Content-Type", "application/json"), ("X-Request-Id", "2cszmpe4n7ucj-1k3")])
        var connection = ServerConnection()
        var output: [UInt8] = []
        for _ in 0..<operations {
            bytes.withUnsafeBytes { connection.receive($0) }
            reading: while true {
                switch connection.nextEvent() {
                case .head, .body: continue
                case .end: break reading
                default: throw Unexpected(what: "the request is not read to its end")
                }
            }
            output.removeAll(keepingCapacity: true)
            connection.encode(
                status: .ok, fields: fields, body: body, dateText: "Sat, 21 Nov 2026 12:00:00 GMT", into: &output)
        }
    }

    static let route = Layer(name: "route", operations: 20_000) { _, operations in
        let handler: RequestHandler = { _ in Response(status: .ok) }
        let router = Router(
            ["/native/events", "/native/events/batch", "/native/sessions", "/native/sessions/{session_id}"].map {
                Route(.post, $0, handler: handler)
            })
        for _ in 0..<operations {
            guard case .route = router.match(.post, "/native/events") else { throw Unexpected(what: "no route") }
        }
    }

    /// Verifies a token that the verifier already knows. In production, a driver's token is new about once an hour.
    static func token() async throws -> Layer {
        let scope = TokenScope(issuer: "dwell", audience: "dwell")
        let key = try SigningKey(secret: Secret(String(repeating: "k", count: 40)))
        let verifier = AccessTokenVerifier(key: key, scope: scope, trustExternal: true, signInSessions: nil)
        let token = try await AccessTokenIssuer(key: key, scope: scope)
            .mint(driver: DriverID("driver-00042"), role: nil, ttlSeconds: 3600, now: 1_800_000_000)
        return Layer(name: "token", operations: 5000) { _, operations in
            for _ in 0..<operations {
                _ = try await verifier.verify(token, atSecondsSince1970: 1_800_000_001)
            }
        }
    }

    static let decode = Layer(name: "decode", operations: 3000) { _, operations in
        let body = Sample.body
        for _ in 0..<operations {
            _ = try EventSubmission.decode(body, route: .native)
        }
    }

    static let fold = Layer(name: "fold", operations: 20_000) { _, operations in
        let events = Sample.journeys
        var journey = Journey()
        for index in 0..<operations {
            _ = journey.apply(events[index % events.count])
        }
    }

    static let encode = Layer(name: "encode", operations: 10_000) { _, operations in
        let answer = Sample.answer
        var length = 0
        for _ in 0..<operations { length += answer.encoded().count }
        guard length > 0 else { throw Unexpected(what: "nothing is encoded") }
    }

    static func admission() -> Layer {
        let admission = LocalRateLimiter(limits: RateLimits(sessionEvents: 100_000, preSessionEvents: 100_000))
        let rounds = 8
        let claims = (0..<rounds).map { round in
            (0..<4000).map { number in
                AdmissionClaim(
                    driver: DriverID("driver-\(number % 200)"), limitClass: .sessionEvents,
                    idempotencyKey: "7f3c9a52-1d2e-4b6f-\(round)-\(number)")
            }
        }
        return Layer(name: "admission", operations: 4000) { round, operations in
            for claim in claims[round % rounds].prefix(operations) {
                guard admission.decide(claim).verdict == .admitted else { throw Unexpected(what: "not admitted") }
                admission.recordStored(claim)
            }
        }
    }

    /// Stores events in a file with synchronous=FULL. 64 events share one commit.
    static func append() throws -> Layer {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("layers-\(UUID())")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        let store = try SQLiteEventStore(path: folder.appendingPathComponent("db.sqlite3").path, nowMilliseconds: 0)
        let rounds = 8
        let requests = try (0..<rounds).map { round in try Sample.appends(round: round, count: 1600) }
        var layer = Layer(name: "append", operations: 1600) { round, operations in
            if round == 0 { _ = await store.append(try Sample.appends(round: rounds, count: 64)) }
            var left = requests[round % rounds].prefix(operations)
            while !left.isEmpty {
                for result in await store.append(Array(left.prefix(64))) {
                    guard case .stored = result else { throw Unexpected(what: "not stored: \(result)") }
                }
                left = left.dropFirst(64)
            }
        }
        layer.cleanUp = { try? FileManager.default.removeItem(at: folder) }
        return layer
    }
}

struct Unexpected: Error {
    var what: String
}
