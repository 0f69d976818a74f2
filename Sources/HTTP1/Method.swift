/// A request method: a case-sensitive token (RFC 9110 section 9.1).
package struct Method: Hashable, Sendable {
    package var rawValue: String

    package init(_ rawValue: String) {
        self.rawValue = rawValue
    }

    /// Creates the method from the name in the range.
    init(_ bytes: [UInt8], _ range: Range<Int>) {
        self.init(Grammar.text(bytes, range))
    }

    package static let get = Method("GET")
    package static let head = Method("HEAD")
    package static let post = Method("POST")
    package static let put = Method("PUT")
    package static let patch = Method("PATCH")
    package static let delete = Method("DELETE")
    package static let options = Method("OPTIONS")
    package static let connect = Method("CONNECT")
    package static let trace = Method("TRACE")
}
