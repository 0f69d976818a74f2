// Tests which values of If-None-Match and If-Match match an entity tag, and which responses follow.

import HTTP1
import HTTPServer
import Testing

@testable import API

struct EntityTagTests {
    @Test(arguments: [
        "\"v1\"", "W/\"v1\"", "*", "\"v0\", \"v1\"", "\"v0\",W/\"v1\"", "\"a,b\",\"v1\"", "\"a b\" , \"v1\"",
    ])
    func matches(_ value: String) {
        #expect(EntityTag.matches([value], "\"v1\""))
    }

    /// A comma or a space between the quotation marks belongs to the tag (RFC 9110 section 8.8.3).
    @Test(arguments: ["", "v1", "\"v2\"", "\"v1", "X/\"v1\"", "\"a,*,b\"", "\"a, W/*, b\"", "\"a,\"v1"])
    func doesNotMatch(_ value: String) {
        #expect(!EntityTag.matches([value], "\"v1\""))
    }

    @Test(arguments: ["\"v1\"", "*", "\"v0\", \"v1\"", "W/\"v1\",\"v1\""])
    func matchesStrongly(_ value: String) {
        #expect(EntityTag.matchesStrongly([value], "\"v1\""))
    }

    @Test(arguments: ["", "v1", "\"v2\"", "W/\"v1\"", "W/*"])
    func doesNotMatchStrongly(_ value: String) {
        #expect(!EntityTag.matchesStrongly([value], "\"v1\""))
    }

    @Test(
        arguments: [
            ([], 200), ([("If-None-Match", "\"v1\"")], 304), ([("If-None-Match", "\"v2\"")], 200),
            ([("If-Match", "\"v1\"")], 200), ([("If-Match", "*")], 200), ([("If-Match", "\"v2\"")], 412),
            ([("If-Match", "W/\"v1\"")], 412), ([("If-Match", "")], 412),
            ([("If-Match", "\"v2\""), ("If-Match", "\"v1\"")], 200),
            ([("If-Match", "\"v1\""), ("If-None-Match", "\"v1\"")], 304),
            ([("If-None-Match", "\"v1\""), ("If-Match", "\"v2\"")], 412),
            // The representation has no modification date.
            ([("If-Unmodified-Since", "Sun, 06 Nov 1994 08:49:37 GMT")], 200),
        ] as [([(String, String)], Int)])
    func `If-Match is evaluated before If-None-Match`(fields: [(String, String)], status: Int) {
        let request = Request(
            method: .get, path: "/", query: nil, fields: Fields(fields), id: "r1", receivedAtMilliseconds: 0,
            parameters: [:])
        let response = EntityTag.response(
            to: request, "\"v1\"", whole: Response(status: .ok), notModified: Response(status: .notModified))
        #expect(response.status.code == status)
        #expect((response.fields.first("Content-Type") == "application/problem+json") == (status == 412))
    }
}
