// The ways in which Redis fails. Each one leaves a decision to the process; none reaches a request.

/// Why a call or a probe failed, as a word for the log.
enum RedisFailure: Error, Hashable, Sendable, CustomStringConvertible {
    /// The connection could not be made, or was lost with calls on it.
    case connection
    case timedOut
    /// Not RESP, not the expected type, or more than was requested.
    case unexpectedReply
    /// The first word of an error reply; the rest may quote what was sent.
    case errorReply(String)

    init(errorText: String) {
        let word = errorText.prefix { $0.isASCII && ($0.isUppercase || $0 == "_") }
        self = .errorReply(word.isEmpty ? "ERR" : String(word.prefix(32)))
    }

    var description: String {
        switch self {
        case .connection: "no connection"
        case .timedOut: "no reply in time"
        case .unexpectedReply: "unexpected reply"
        case .errorReply(let word): word
        }
    }
}
