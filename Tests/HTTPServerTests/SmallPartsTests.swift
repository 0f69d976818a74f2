// Tests of the Date field and of request ids.

import Testing

@testable import HTTP1
@testable import HTTPServer

@Suite struct SmallPartsTests {
    @Test(
        arguments: [
            (784_111_777_000, "Sun, 06 Nov 1994 08:49:37 GMT"),  // RFC 9110 section 5.6.7
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (951_782_400_999, "Tue, 29 Feb 2000 00:00:00 GMT"),
            (1_709_251_199_000, "Thu, 29 Feb 2024 23:59:59 GMT"),
            (-5_000, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (.max, "Fri, 31 Dec 9999 23:59:59 GMT"),
        ] as [(Int64, String)])
    func `a date is an IMF-fixdate`(milliseconds: Int64, expected: String) {
        var date = HTTPDate()
        #expect(date.text(milliseconds) == expected)
    }

    @Test func `request ids are taken over when they match the contract's pattern`() {
        for good in ["a", "A.b_c-9", String(repeating: "x", count: 128)] { #expect(RequestID.isWellFormed(good)) }
        for bad in ["", " ", "a b", "a\n", "ä", "a/b", String(repeating: "x", count: 129)] {
            #expect(!RequestID.isWellFormed(bad))
        }
    }

    @Test func `made request ids match it too, and differ`() {
        let ids = (0..<1000).map { _ in RequestID.make() }
        #expect(Set(ids).count == ids.count)
        #expect(ids.allSatisfy(RequestID.isWellFormed))
    }
}
