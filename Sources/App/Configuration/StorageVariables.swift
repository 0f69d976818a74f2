// The variables of storage: the database (an SQLite file or PostgreSQL), how long rows are kept, and Redis.

import Engine
import Postgres
import RateLimiting

extension Variables {
    static let databasePath = Variable<String>(
        name: "DATABASE_PATH", section: .storage, defaultText: "var/dwell.sqlite3", defaultValue: "var/dwell.sqlite3",
        allowed: .text("the path of a file"), isSecret: false,
        sentence: "The SQLite database; created at the first start. With DATABASE_URL, leave the default.",
        // The path may be empty if DATABASE_URL is set.
        parse: { text in
            let isFile = isPath(text) && !text.hasSuffix("/") && !text.hasPrefix(":") && !text.hasPrefix("file:")
            return isFile || text.isEmpty ? text : nil
        }, show: { $0.isEmpty ? "not set" : $0 })

    static let databaseURL: Variable<PostgresConfiguration?> = {
        var variable = Variable<PostgresConfiguration?>.secret(
            "DATABASE_URL", .storage,
            allowed: "postgres://user:password@host:port/database, also with several comma-separated hosts, and with "
                + "libpq's parameters, such as ?sslmode=verify-full&sslrootcert=/path",
            "PostgreSQL in place of the SQLite database. Several servers, also on several machines, can use it at the "
                + "same time.",
            parse: { try? PostgresConfiguration(url: $0) }, show: { $0.description })
        variable.flaw = { text in
            do throws(PostgresConfigurationError) {
                _ = try PostgresConfiguration(url: text)
                return nil
            } catch {
                return error.flaw
            }
        }
        return variable
    }()

    static let eventRetentionDays = Variable<Int>(
        name: "EVENT_RETENTION_DAYS", section: .storage, defaultText: "0", defaultValue: 0,
        allowed: .text("0, or a whole number from \(RetentionService.daysMin) to \(RetentionService.daysMax)"),
        isSecret: false, sentence: "Days after receipt until an event is deleted; 0 keeps events forever.",
        parse: { text in
            let range = RetentionService.daysMin...RetentionService.daysMax
            return wholeNumber(text, in: 0...range.upperBound).flatMap { $0 == 0 || range.contains($0) ? $0 : nil }
        }, show: { String($0) })

    static let auditRetentionDays = Variable<Int>(
        name: "AUDIT_RETENTION_DAYS", section: .storage, defaultText: "365", defaultValue: 365,
        allowed: .text("0, or a whole number from \(RetentionService.auditDaysMin) to \(RetentionService.daysMax)"),
        isSecret: false,
        sentence:
            "Days after which audit records are deleted, except receipts of deletions; 0 keeps all.",
        parse: { text in
            let range = RetentionService.auditDaysMin...RetentionService.daysMax
            return wholeNumber(text, in: 0...range.upperBound).flatMap { $0 == 0 || range.contains($0) ? $0 : nil }
        }, show: { String($0) })

    static let redis = Variable<RedisEndpoint?>.secret(
        "REDIS_URL", .storage,
        allowed: "redis://[[user:]password@]host[:port][/database], or with the comma-separated hosts of a Redis "
            + "Cluster; redis+sentinel://hosts/name; rediss:// or rediss+sentinel:// for TLS; redis+unix:///path or "
            + "unix:///path",
        "Redis for rate limits that several servers share. Without Redis, each process enforces its own limits.",
        parse: { try? RedisEndpoint(parsing: $0) }, show: { $0.description })

    static let redisTimeoutMilliseconds = Variable<Int>.integer(
        "REDIS_TIMEOUT_MS", .storage, default: 50, in: 1...5000,
        "Time limit for Redis. If Redis does not respond in this time, the process makes the decision itself.")

    static let storage: [any Declaration] = [
        databasePath, databaseURL, eventRetentionDays, auditRetentionDays, redis, redisTimeoutMilliseconds,
    ]
}

extension PostgresConfigurationError {
    /// What is wrong with the URL. The text quotes no part of the URL, because the URL contains a password.
    fileprivate var flaw: String {
        switch self {
        case .scheme: "it does not begin with postgres:// or postgresql://"
        case .credentials:
            "the user or the password is malformed (\"@\" is written %40, \"/\" %2F, \"?\" %3F, \"#\" %23)"
        case .host: "the host is malformed"
        case .port: "a port is not a number from 1 to 65535"
        case .malformed: "a parameter is unknown, or a \"%\" is not followed by two hexadecimal digits"
        case .sslMode: "sslmode is none of disable, allow, prefer, require, verify-ca, verify-full"
        case .readOnly: "target_session_attrs is not read-write or primary, but the server writes"
        }
    }
}

extension Configuration {
    enum Database: Sendable, CustomStringConvertible {
        /// The path of the file. A path that does not begin with a slash is relative to the working directory.
        case sqlite(path: String)
        case postgres(PostgresConfiguration)

        /// The text for the log. It contains no password.
        var description: String {
            switch self {
            case .sqlite(let path): path
            case .postgres(let configuration): "PostgreSQL \(configuration)"
            }
        }

        /// Reads DATABASE_PATH and DATABASE_URL. Records a problem if both are set, or if DATABASE_URL is not set and
        /// DATABASE_PATH is empty.
        ///
        /// Exception: if DATABASE_URL is set, DATABASE_PATH may still have its default value, because every environment
        /// file made from ENV.example contains this value.
        init(_ reading: inout ConfigurationReading) {
            let path = reading.value(of: Variables.databasePath)
            let (name, other) = (Variables.databasePath.name, Variables.databaseURL.name)
            if let postgres = reading.value(of: Variables.databaseURL) {
                if !path.isEmpty, path != Variables.databasePath.defaultText {
                    reading.note(other, " and \(name) are both set; allowed is one of them")
                }
                self = .postgres(postgres)
                return
            }
            if path.isEmpty, !reading.problems.contains(where: { $0.variable.hasPrefix(other) }) {
                reading.note(name, " is empty; allowed is \(Variables.databasePath.allowed), or empty with \(other)")
            }
            self = .sqlite(path: path)
        }
    }
}
