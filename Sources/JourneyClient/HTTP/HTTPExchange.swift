// One request and its outcome, as values that can be used with any HTTP library.

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

    /// A request. Send it to the server's base URL, over TLS, with a timeout. Do not follow redirects, because a
    /// redirected request would send the token to another server.
    ///
    /// Send the request at once. Use neither a background `URLSession` nor `waitsForConnectivity`, because they may
    /// wait for hours. The server would treat this delay after `X-Sent-At` as an error of the phone's clock, and would
    /// change the times of the events.
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
        /// The body after the transfer and content codings were removed.
        public var body: [UInt8]

        public init(status: Int, fields: [Field] = [], body: [UInt8] = []) {
            self.status = status
            self.fields = fields
            self.body = body
        }

        /// Returns the first value of the field `name`; nil if there is no such field. Names are compared
        /// case-insensitively.
        public func field(_ name: String) -> String? {
            let name = name.lowercased()
            return fields.first { $0.name.lowercased() == name }?.value
        }
    }

    public enum Outcome: Hashable, Sendable {
        case response(Response)
        /// No complete response arrived, for example because of a timeout or because there is no network. It is unknown
        /// whether the server received the request.
        case noResponse
    }
}
