// The address of PostgreSQL and the time limits of a session. Parses the URL that the operator sets.

internal import CPostgres
package import Secrets

/// The address of one server, or of several servers of which one accepts writes, and the time limits. Descriptions and
/// errors never contain the password.
package struct PostgresConfiguration: Sendable, CustomStringConvertible {
    /// The time, in milliseconds, after which the server cancels a statement.
    package var statementTimeoutMilliseconds = 10_000
    /// How long a statement waits for a lock, in milliseconds. It must be shorter than `BatchRun.roundTripSeconds`, the
    /// time limit of most calls, because a call that times out closes its connection.
    package var lockTimeoutMilliseconds = 4_000
    /// The time, in milliseconds, after which the server ends a session that has an open transaction and sends nothing.
    package var idleInTransactionTimeoutMilliseconds = 10_000
    /// The default time limit of a call, in milliseconds. It is longer than the statement timeout, so that the server
    /// cancels a slow statement before the call times out.
    package var callTimeoutMilliseconds = 15_000
    /// The time limit for making a connection, in milliseconds, for all hosts together.
    package var connectTimeoutMilliseconds = 10_000

    /// The parameters for libpq by keyword (libpq's manual, "Parameter Key Words"). They contain the password.
    private let parameters: Secret<[String: String]>
    package let description: String

    /// Parameters that apply unless the URL sets them.
    private static let defaults = [
        "fallback_application_name": "dwell",
        // libpq's own default verifies no certificate, and encrypts only if the server offers encryption.
        "sslmode": "verify-full",
        // Kerberos is not used. Without this setting, libpq looks for Kerberos credentials at each connection.
        "gssencmode": "disable",
        "target_session_attrs": "read-write",
        // With these four values, a dead peer is noticed after about a minute, even while nothing is sent.
        "keepalives_idle": "30",
        "keepalives_interval": "10",
        "keepalives_count": "3",
        "tcp_user_timeout": "30000",
    ]

    /// Parses a connection URI of libpq (libpq's manual, "Connection URIs"), for example
    /// `postgresql://user:password@host:5432,host2:5432/database?parameter=value`. All parameters are passed on to
    /// libpq, but `client_encoding` is always UTF8, and `connect_timeout` is limited (`connectParameters`).
    ///
    /// - Parameter password: replaces the password of the URL. If nil, the URL's password is used.
    /// - Throws: an error that says what is wrong and quotes no part of the URL.
    package init(url: String, password: Secret<String>? = nil) throws(PostgresConfigurationError) {
        try Self.checkForm(url)
        var parameters = try Self.parse(url)
        if let password { parameters["password"] = password.reveal() }
        for value in parameters.values where value.utf8.contains(0) { throw .malformed }
        try Self.checkHosts(parameters)
        try Self.checkModes(parameters)
        description = "\(parameters["host"] ?? parameters["hostaddr"] ?? "local socket")/\(parameters["dbname"] ?? "")"
        for (keyword, value) in Self.defaults where parameters[keyword] == nil { parameters[keyword] = value }
        // This module decodes UTF-8 only.
        parameters["client_encoding"] = "UTF8"
        self.parameters = Secret(parameters)
    }

    /// Returns the parameters for an attempt to connect. Divides `milliseconds` among the hosts, but gives each host at
    /// least 2 s.
    ///
    /// A single host gets only half of `milliseconds`, because its name may have several addresses. libpq allows each
    /// address the time of its host. With all of `milliseconds`, the first address could use up the whole time.
    func connectParameters(milliseconds: Int) -> [String: String] {
        var parameters = parameters.reveal()
        let hosts = (parameters["host"] ?? parameters["hostaddr"] ?? "").split(separator: ",").count
        // libpq counts `connect_timeout` in seconds, and treats 1 as 2. Without a deadline, each host gets an hour.
        let seconds = min(3600, max(2, milliseconds / 1000 / max(2, hosts)))
        let configured = parameters["connect_timeout"].flatMap { Int($0) } ?? 0
        parameters["connect_timeout"] = String(configured > 0 ? min(configured, seconds) : seconds)
        return parameters
    }

    /// Returns libpq's message with the password replaced.
    func redacting(_ message: String) -> String {
        guard let password = parameters.reveal()["password"], !password.isEmpty else { return message }
        return message.replacing(password, with: redacted)
    }

    // MARK: - Parsing

    /// Checks the scheme, and that "@", "/", "?" and "#" in the user or password are percent-encoded. libpq would take
    /// a part of an unencoded password for the host, port or database, and show it in its messages.
    private static func checkForm(_ url: String) throws(PostgresConfigurationError) {
        guard let scheme = ["postgresql://", "postgres://"].first(where: { url.hasPrefix($0) }) else { throw .scheme }
        let rest = url.dropFirst(scheme.count)
        guard let at = rest.firstIndex(of: "@") else { return }
        guard !rest[..<at].contains(where: { "/?#".contains($0) }), !rest[rest.index(after: at)...].contains("@") else {
            throw .credentials
        }
    }

    private static func parse(_ url: String) throws(PostgresConfigurationError) -> [String: String] {
        // libpq's error message is not used, because it quotes the URL.
        var message: UnsafeMutablePointer<CChar>?
        let options = PQconninfoParse(url, &message)
        PQfreemem(message)
        guard let options else { throw .malformed }
        defer { PQconninfoFree(options) }
        var parameters: [String: String] = [:]
        var option = options
        while let keyword = option.pointee.keyword {
            if let value = option.pointee.val { parameters[String(cString: keyword)] = String(cString: value) }
            option += 1
        }
        return parameters
    }

    private static func checkHosts(_ parameters: [String: String]) throws(PostgresConfigurationError) {
        for port in (parameters["port"] ?? "").split(separator: ",") {
            guard let number = Int(port), (1...65535).contains(number) else { throw .port }
        }
        let hosts = (parameters["host"] ?? "") + (parameters["hostaddr"] ?? "")
        guard !hosts.unicodeScalars.contains(where: { $0.value <= 0x20 || $0 == "@" || $0.value == 0x7f }) else {
            throw .host
        }
    }

    /// Checks `sslmode` and `target_session_attrs`. libpq itself checks their values only when it connects.
    /// `target_session_attrs` must have one of the values with which libpq selects a server that accepts writes.
    private static func checkModes(_ parameters: [String: String]) throws(PostgresConfigurationError) {
        let modes = ["disable", "allow", "prefer", "require", "verify-ca", "verify-full"]
        if let mode = parameters["sslmode"], !modes.contains(mode) { throw .sslMode }
        let sessions = ["read-write", "primary"]
        if let session = parameters["target_session_attrs"], !sessions.contains(session) { throw .readOnly }
    }
}

extension PostgresConfiguration: CustomReflectable {
    /// `dump` and failed expectations print this instead of the members.
    package var customMirror: Mirror { Mirror(self, children: ["server": description]) }
}

/// The error in a PostgreSQL URL. Each description is a message for the operator.
package enum PostgresConfigurationError: Error, Hashable, Sendable, CustomStringConvertible {
    case scheme, credentials, host, port, sslMode, readOnly, malformed

    package var description: String {
        switch self {
        case .scheme: "A PostgreSQL URL begins with postgresql:// or postgres://."
        case .credentials:
            "The user or the password of the PostgreSQL URL is malformed: \"@\" is written %40, \"/\" %2F, \"?\" %3F, "
                + "\"#\" %23."
        case .host: "The host of the PostgreSQL URL is malformed."
        case .port: "A port of the PostgreSQL URL is not a number from 1 to 65535."
        case .sslMode:
            "sslmode in the PostgreSQL URL is none of disable, allow, prefer, require, verify-ca and verify-full."
        case .readOnly:
            "target_session_attrs in the PostgreSQL URL is not read-write or primary; Dwell needs a server that accepts "
                + "writes."
        case .malformed:
            "libpq cannot parse the PostgreSQL URL: a parameter is unknown, or a \"%\" is not followed by two "
                + "hexadecimal digits."
        }
    }
}
