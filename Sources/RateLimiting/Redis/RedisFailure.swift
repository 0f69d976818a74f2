// The ways in which Redis fails. After each failure the limiter of the process decides, so that no request fails.

/// The reason why a call or a probe failed. Its description is for the log.
enum RedisFailure: Error, Hashable, Sendable, CustomStringConvertible {
    /// The connection could not be made, or was lost while calls were waiting.
    case connection
    case timedOut
    /// A reply was not RESP, not of the expected type, or not requested.
    case unexpectedReply
    /// An error reply. Holds only its first word, because the rest may quote the command.
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
