// How a log line looks. See LogLine.swift for both forms.

/// The two forms of a log line; the raw values are those of `LOG_FORMAT`.
package enum LogFormat: String, CaseIterable, Sendable {
    /// One line for a person: time, level, message, then `key=value`.
    case text
    /// One JSON object (RFC 8259) a line, for whatever collects the logs.
    case json
}
