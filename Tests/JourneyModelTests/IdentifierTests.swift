// Tests of the ids of the domain.

import JourneyModel
import Testing

struct IdentifierTests {
    /// The two forms of é are equal as Strings, but the database and all digests compare bytes.
    @Test func `drivers are equal only if their ids have the same bytes`() {
        let (composed, decomposed) = (DriverID("jos\u{E9}"), DriverID("jose\u{301}"))
        #expect(composed.rawValue == decomposed.rawValue)
        #expect(composed != decomposed)
        #expect(composed == DriverID("jos\u{E9}"))
        #expect(Set([composed, decomposed, DriverID("jos\u{E9}"), DriverID("jose\u{301}")]).count == 2)
        #expect(DriverID("") == DriverID("") && DriverID("") != composed)
        let long = String(repeating: "d", count: 128)
        #expect(DriverID(long) == DriverID(long) && DriverID(long) != DriverID(long + "d"))
        #expect(DriverID(long).hashValue == DriverID(long).hashValue)
    }
}
