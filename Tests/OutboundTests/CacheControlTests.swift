// Tests the max-age that is read from Cache-Control (RFC 9111 section 5.2).

import Testing

@testable import Outbound

@Suite struct CacheControlTests {
    @Test(arguments: [
        ("max-age=3600", 3600), ("public, Max-Age = 60 ,must-revalidate", 60), ("max-age=\"5\"", 5), ("max-age=0", 0),
        ("s-maxage=1, max-age=2", 2), ("max-age=99999999999999999999999", 3_155_760_000),
    ])
    func maxAge(field: String, seconds: Int) {
        #expect(CacheControl.maxAgeSeconds(field) == seconds)
    }

    @Test(arguments: ["", "no-store", "max-age", "max-age=", "max-age=-1", "max-age=x, max-age=1", "s-maxage=1"])
    func none(field: String) {
        #expect(CacheControl.maxAgeSeconds(field) == nil)
    }
}
