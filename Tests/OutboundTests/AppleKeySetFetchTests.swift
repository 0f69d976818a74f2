// Checks that a valid response is accepted as a key set and that every other response is rejected.

import Foundation
import Identity
import Logging
import Testing

@testable import Outbound

@Suite(.timeLimit(.minutes(1))) struct AppleKeySetFetchTests {
    private func fetched(_ behaviour: Behaviour) async throws -> (body: String, maxAgeSeconds: Int?)? {
        var result: (String, Int?)?
        try await LoopbackServer.with(.always(behaviour)) { _, url, http in
            let fetch = AppleKeySetFetch(
                http: http, url: url, logger: Logger(label: "test", factory: { _ in SwiftLogNoOpLogHandler() }))
            result = await fetch.fetch().map { (String(decoding: $0.body, as: UTF8.self), $0.maxAgeSeconds) }
        }
        return result
    }

    @Test func anAnswer() async throws {
        let fetched = try #require(
            try await fetched(.answer(200, #"{"keys":[]}"#, fields: "Cache-Control: max-age=60\r\n")))
        #expect(fetched.body == #"{"keys":[]}"#)
        #expect(fetched.maxAgeSeconds == 60)
        #expect(try await self.fetched(.answer(200, "{}"))?.maxAgeSeconds == nil)
    }

    @Test(arguments: [
        Behaviour.answer(304), .answer(404), .answer(500), .answer(302, fields: "Location: /x\r\n"), .endless,
        .text("x"),
        .answer(200, String(repeating: " ", count: 262_145)),
    ])
    func none(behaviour: Behaviour) async throws {
        #expect(try await fetched(behaviour) == nil)
    }
}
