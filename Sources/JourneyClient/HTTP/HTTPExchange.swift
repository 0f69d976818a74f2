// One request and its outcome, as values that any HTTP stack can carry.

/// The HTTP types of this module.
public enum HTTPExchange {
    public struct Field: Hashable, Sendable {
        public var name: String
        public var value: String

        public init(_ name: String, _ value: String) {
            self.name = name
            self.value = value
        }
    }

    /// A request. Send it to the server's base URL, over TLS, with a timeout. Do not follow redirects: they would send
    /// the token to another server.
    public struct Request: Hashable, Sendable {
        public var method: String
        /// Begins with `/`.
        public var path: String
        public var fields: [Field]
        public var body: [UInt8]

        public init(method: String, path: String, fields: [Field], body: [UInt8]) {
            self.method = method
            self.path = path
            self.fields = fields
            self.body = body
        }
    }

    public struct Response: Hashable, Sendable {
        public var status: Int
        public var fields: [Field]
        /// With transfer and content codings removed.
        public var body: [UInt8]

        public init(status: Int, fields: [Field] = [], body: [UInt8] = []) {
            self.status = status
            self.fields = fields
            self.body = body
        }

        /// Returns the first value of the field `name`, which is compared case-insensitively; nil when there is none.
        public func field(_ name: String) -> String? {
            let name = name.lowercased()
            return fields.first { $0.name.lowercased() == name }?.value
        }
    }

    public enum Outcome: Hashable, Sendable {
        case response(Response)
        /// No complete response arrived: no network, a timeout, a broken connection. Whether the server received
        /// the request is unknown.
        case noResponse
    }
}
