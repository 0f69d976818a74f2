// The formats of a log line. LogLine.swift renders all of them.

/// The format of a log line. The raw values are those of `LOG_FORMAT`.
package enum LogFormat: String, CaseIterable, Sendable {
    /// One line for people: time, level, message, then `key=value`.
    case text
    /// One JSON object (RFC 8259) per line, for log collectors.
    case json
}
