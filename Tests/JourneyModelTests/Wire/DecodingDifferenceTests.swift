// Decodes generated bodies with the real decoder, which reads an event in one pass, and with the plain decoder
// (`PlainDecoding`). The results must be equal.

import JourneyModel
import TestSupport
import Testing

struct DecodingDifferenceTests {
    private static let headers = [
        EventHeaders(), EventHeaders(), EventHeaders(), EventHeaders(idempotencyKey: "k"),
        EventHeaders(idempotencyKey: "\"k\""), EventHeaders(idempotencyKey: "caf\u{E9}", sentAt: "now"),
        EventHeaders(sentAt: "2027-01-15T08:00:01Z"),
    ]

    private static let routes = [EventRoute.native, .native, .native, .service, .v1Session, .v1PreSession]

    private typealias Decoded = Result<EventSubmission, BodyRefusal>

    @Test("Event or refusal, everything about it is the same", arguments: 0..<8 as Range<UInt64>)
    func alone(_ seed: UInt64) {
        var bodies = GeneratedBodies(random: SeededRandom(seed: seed))
        var accepted = 0
        for _ in 0..<500 {
            let body = bodies.next()
            let headers = Self.headers.randomPick(&bodies.random)
            let route = Self.routes.randomPick(&bodies.random)
            let plain = Decoded { () throws(BodyRefusal) in
                try PlainDecoding.decode(body, route: route, headers: headers)
            }
            let decoded = Decoded { () throws(BodyRefusal) in
                try EventSubmission.decode(body, route: route, headers: headers)
            }
            expectSame(decoded, plain, body)
            if case .success = decoded { accepted += 1 }
        }
        // Both valid and invalid bodies must be frequent. With only invalid bodies, the comparison would prove little.
        #expect((50...450).contains(accepted), "\(accepted) of 500 accepted")
    }

    @Test("In a batch an event is what it is alone", arguments: 0..<4 as Range<UInt64>)
    func batch(_ seed: UInt64) throws {
        var bodies = GeneratedBodies(random: SeededRandom(seed: seed))
        for _ in 0..<20 {
            let events = (0..<20).compactMap { _ -> (body: [UInt8], alone: Decoded)? in
                let body = bodies.next()
                let alone = Decoded { () throws(BodyRefusal) in
                    try PlainDecoding.decode(body, route: .native, headers: EventHeaders())
                }
                // Leave out bodies that the JSON parser rejects. A body that is not JSON would make the whole batch
                // invalid. For other rejected bodies, the error contains a position, which is different in a batch.
                if case .failure(.malformedJSON) = alone { return nil }
                return (body, alone)
            }
            let batch = Array("{\"events\":[".utf8) + events.map(\.body).joined(separator: [0x2C]) + Array("]}".utf8)
            let results = try EventBatch.decode(batch)
            try #require(results.count == events.count)
            for (result, event) in zip(results, events) { expectSame(result, event.alone, event.body) }
        }
    }

    /// Also compares the texts byte by byte, because `==` treats canonically equivalent Strings as equal.
    private func expectSame(_ decoded: Decoded, _ plain: Decoded, _ body: [UInt8]) {
        #expect(decoded == plain, "\(String(decoding: body, as: UTF8.self))")
        guard case .success(let one) = decoded, case .success(let other) = plain else { return }
        #expect(texts(of: one) == texts(of: other), "\(String(decoding: body, as: UTF8.self))")
    }

    private func texts(of event: EventSubmission) -> [[UInt8]] {
        let texts = [
            event.spelling, event.schemaVersion, event.eventID, event.idempotencyKey, event.driverID, event.sessionID,
            event.chargerID, event.merchantID, event.occurredAtText, event.source, event.appState, event.metadata,
            event.details,
        ]
        return texts.map { Array(($0 ?? "").utf8) }
    }
}
