// Parses `REDIS_URL` into addresses and credentials. Opens no connection and resolves no name.

package import Sockets

/// A Redis URL:
///
/// - `redis://[[user:]password@]host[:port][/db]`: one Redis, or one node of a cluster.
/// - `redis://[[user:]password@]host[:port],host[:port],...`: nodes of a cluster.
/// - `redis+sentinel://[[user:]password@]host[:port],.../name[/db][?sentinel_password=...]`: the primary with this
///   name, whose address the sentinels know. User and password are those of the primary.
/// - `rediss://...` and `rediss+sentinel://...`: the same over TLS, also to the sentinels. The parameter `ca` is the
///   path of a PEM file with the certificates to trust instead of the system's. The PEM files `cert` and `key` contain
///   the certificate and the private key of this client.
/// - `redis+unix://[[user:]password@]/path[?db=n]`; `unix://` means the same.
///
/// User and passwords are percent-encoded (RFC 3986 section 2.1). Passwords never appear in the descriptions and errors
/// of this type.
package struct RedisEndpoint: Hashable, Sendable, CustomStringConvertible, CustomDebugStringConvertible {
    /// The name of a primary, and the password of the sentinels.
    package struct Sentinel: Hashable, Sendable {
        package let primaryName: String
        package let password: String?
    }

    /// At least one address: of Redis, of nodes of a cluster, or of sentinels.
    package let servers: [SocketAddress]
    /// The name of the primary and the password of the sentinels; nil if `servers` are not sentinels.
    package let sentinel: Sentinel?
    package let username: String?
    package let password: String?
    /// The number of the database; 0 when the URL names no database.
    package let database: Int
    /// The certificates for TLS; nil if the connections do not use TLS.
    let tls: RedisTLS?

    package var usesTLS: Bool { tls != nil }

    private static let defaultPort = 6379
    private static let defaultSentinelPort = 26379
    /// The maximum number of hosts in a URL. A URL with more hosts is assumed to be a mistake.
    private static let serversMax = 64

    /// - Throws: an error that says what is wrong and quotes no part of the URL.
    package init(parsing url: String) throws(RedisEndpointError) {
        guard let separator = url.firstRange(ofText: "://") else { throw .noScheme }
        var rest = url[separator.upperBound...]
        if rest.contains("#") { throw .fragment }
        let query = rest.splitOff(after: "?")
        // A password may contain an unescaped "@"; a host may not.
        let endOfAuthority = rest.firstIndex(of: "/") ?? rest.endIndex
        let at = rest[..<endOfAuthority].lastIndex(of: "@")
        (username, password) = try Self.credentials(at.map { rest[..<$0] })
        if let at { rest = rest[rest.index(after: at)...] }

        let databaseText: Substring?
        var sentinel: Sentinel?
        let scheme = url[..<separator.lowerBound].lowercased()
        switch scheme {
        case "redis", "rediss":
            databaseText = rest.splitOff(after: "/") ?? query.flatMap { Self.parameter("db", in: $0) }
            servers = try Self.hosts(rest, defaultPort: Self.defaultPort)
        case "redis+sentinel", "rediss+sentinel":
            guard var name = rest.splitOff(after: "/") else { throw .noPrimaryName }
            databaseText = name.splitOff(after: "/") ?? query.flatMap { Self.parameter("db", in: $0) }
            servers = try Self.hosts(rest, defaultPort: Self.defaultSentinelPort)
            sentinel = try Self.sentinel(name, query)
        case "redis+unix", "unix":
            guard rest.hasPrefix("/"), rest.count > 1, let path = Self.percentDecoded(rest) else { throw .noPath }
            databaseText = query.flatMap { Self.parameter("db", in: $0) }
            servers = [.unix(path: path)]
        default:
            throw .unknownScheme
        }
        self.sentinel = sentinel
        tls = scheme.hasPrefix("rediss") ? try Self.tls(query) : nil
        database = try Self.database(databaseText)
        if servers.count > 1 && sentinel == nil && database != 0 { throw .databaseOfCluster }
    }

    package var description: String {
        let hosts = servers.map(\.description).joined(separator: ", ")
        let place = sentinel.map { "\($0.primaryName) of the sentinels \(hosts)" } ?? hosts
        let tlsPlace = tls == nil ? place : "\(place), TLS"
        return database == 0 ? tlsPlace : "\(tlsPlace), database \(database)"
    }

    package var debugDescription: String { description }

    /// Whether the text can be the host of a URL or of a reply of Redis: a name, an IPv4 or an IPv6 address.
    static func isHost(_ text: some StringProtocol) -> Bool {
        (1...255).contains(text.utf8.count) && text.utf8.allSatisfy(isHostByte)
    }

    private static func sentinel(_ name: Substring, _ query: Substring?) throws(RedisEndpointError) -> Sentinel {
        guard let primaryName = percentDecoded(name), isHost(primaryName) else { throw .noPrimaryName }
        guard let text = query.flatMap({ parameter("sentinel_password", in: $0) }), !text.isEmpty else {
            return Sentinel(primaryName: primaryName, password: nil)
        }
        guard let password = percentDecoded(text) else { throw .malformedCredentials }
        return Sentinel(primaryName: primaryName, password: password)
    }

    private static func tls(_ query: Substring?) throws(RedisEndpointError) -> RedisTLS {
        var paths: [String: String] = [:]
        for name in ["ca", "cert", "key"] {
            guard let text = query.flatMap({ parameter(name, in: $0) }), !text.isEmpty else { continue }
            guard let path = percentDecoded(text), !path.utf8.contains(0) else { throw .malformedCertificates }
            paths[name] = path
        }
        guard (paths["cert"] == nil) == (paths["key"] == nil) else { throw .malformedCertificates }
        return RedisTLS(ca: paths["ca"], certificate: paths["cert"], key: paths["key"])
    }

    private static func hosts(
        _ authority: Substring, defaultPort: Int
    ) throws(RedisEndpointError) -> [SocketAddress] {
        let hosts = authority.split(separator: ",", omittingEmptySubsequences: false)
        guard hosts.count <= serversMax else { throw .malformedHost }
        var addresses: [SocketAddress] = []
        for host in hosts { addresses.append(try ip(host, defaultPort: defaultPort)) }
        return addresses
    }

    /// Parses the user and the password. As in redis-cli, a single word before the "@" is the password.
    private static func credentials(
        _ text: Substring?
    ) throws(RedisEndpointError) -> (username: String?, password: String?) {
        guard let text else { return (nil, nil) }
        var first = text
        let second = first.splitOff(after: ":")
        guard let username = percentDecoded(second == nil ? "" : first),
            let password = percentDecoded(second ?? first)
        else { throw .malformedCredentials }
        if password.isEmpty {
            guard username.isEmpty else { throw .malformedCredentials }
            return (nil, nil)
        }
        return (username.isEmpty ? nil : username, password)
    }

    private static func ip(_ authority: Substring, defaultPort: Int) throws(RedisEndpointError) -> SocketAddress {
        var host = authority
        var portText: Substring?
        if host.hasPrefix("[") {
            guard let bracket = host.firstIndex(of: "]") else { throw .malformedHost }
            var rest = host[host.index(after: bracket)...]
            host = host[..<bracket].dropFirst()
            portText = rest.splitOff(after: ":")
            guard rest.isEmpty else { throw .malformedHost }
        } else {
            portText = host.splitOff(after: ":")
        }
        guard isHost(host) else { throw .malformedHost }
        guard let portText, !portText.isEmpty else { return .ip(host: String(host), port: defaultPort) }
        guard let port = decimal(portText), (1...65535).contains(port) else { throw .malformedPort }
        return .ip(host: String(host), port: port)
    }

    private static func isHostByte(_ byte: UInt8) -> Bool {
        byte > 0x20 && byte < 0x7f && !"@/?#[]\\,".utf8.contains(byte)
    }

    private static func parameter(_ name: String, in query: Substring) -> Substring? {
        query.split(separator: "&").first { $0.hasPrefix(name + "=") }?.dropFirst(name.utf8.count + 1)
    }

    private static func database(_ text: Substring?) throws(RedisEndpointError) -> Int {
        guard let text, !text.isEmpty else { return 0 }
        // Redis has 16 databases by default. The setting `databases` in redis.conf can raise this number.
        guard let number = decimal(text), (0...9999).contains(number) else { throw .malformedDatabase }
        return number
    }

    static func decimal(_ text: Substring) -> Int? {
        text.utf8.allSatisfy { (0x30...0x39).contains($0) } ? Int(text) : nil
    }

    /// Decodes percent-encoded text. Returns nil if a "%" is not followed by two hexadecimal digits, or if the bytes
    /// are not UTF-8.
    private static func percentDecoded(_ text: Substring) -> String? {
        var bytes: [UInt8] = []
        var rest = text.utf8[...]
        while let byte = rest.popFirst() {
            guard byte == UInt8(ascii: "%") else {
                bytes.append(byte)
                continue
            }
            guard let high = rest.popFirst().flatMap(hexadecimal), let low = rest.popFirst().flatMap(hexadecimal)
            else { return nil }
            bytes.append(high << 4 | low)
        }
        return String(validating: bytes, as: UTF8.self)
    }

    private static func hexadecimal(_ byte: UInt8) -> UInt8? {
        Character(UnicodeScalar(byte)).hexDigitValue.map { UInt8($0) }
    }
}

extension RedisEndpoint: CustomReflectable {
    /// `dump` and failed expectations print this instead of the members.
    package var customMirror: Mirror { Mirror(self, children: ["endpoint": description]) }
}

/// The error in a `REDIS_URL`. Each description is a message for the operator.
package enum RedisEndpointError: Error, Hashable, Sendable, CustomStringConvertible {
    case noScheme, unknownScheme, malformedCertificates, fragment, malformedCredentials, malformedHost, malformedPort,
        noPath,
        malformedDatabase, databaseOfCluster, noPrimaryName

    package var description: String {
        switch self {
        case .noScheme, .unknownScheme:
            "A Redis URL begins with redis://, rediss://, redis+sentinel://, rediss+sentinel://, redis+unix:// or unix://."
        case .malformedCertificates:
            "The parameters of rediss:// are ca, cert and key, percent-encoded paths; cert and key come together."
        case .fragment:
            "A Redis URL has no fragment; a \"#\" in the password is written %23."
        case .malformedCredentials:
            "The user or the password of the Redis URL is malformed: expected user:password@, percent-encoded."
        case .malformedHost:
            "The host of the Redis URL is missing or malformed: expected a name, an IPv4 number or [IPv6]."
        case .malformedPort:
            "The port of the Redis URL is not a number from 1 to 65535."
        case .noPath:
            "The Redis URL of a Unix socket needs an absolute path: redis+unix:///run/redis/redis.sock."
        case .malformedDatabase:
            "The database of the Redis URL is not a number from 0 to 9999."
        case .databaseOfCluster:
            "A Redis Cluster has only database 0; a Redis URL with several hosts names no other."
        case .noPrimaryName:
            "A Redis URL with sentinels needs the name of the primary: redis+sentinel://host:26379/name."
        }
    }
}

extension Substring {
    /// Cuts the text at the first separator and returns the text after the separator. Without a separator, returns nil
    /// and leaves the text unchanged.
    fileprivate mutating func splitOff(after separator: Character) -> Substring? {
        guard let end = firstIndex(of: separator) else { return nil }
        let tail = self[index(after: end)...]
        self = self[..<end]
        return tail
    }
}

extension String {
    fileprivate func firstRange(ofText text: String) -> Range<String.Index>? {
        var start = startIndex
        while start < endIndex {
            if self[start...].hasPrefix(text) { return start..<index(start, offsetBy: text.count) }
            start = index(after: start)
        }
        return nil
    }
}
