// The ways in which Redis can fail. After a failure, the limiter in this process makes the decision, so no request
// fails.

/// The reason why a call or a probe failed. Its description is for the log.
enum RedisFailure: Error, Hashable, Sendable, CustomStringConvertible {
    /// The connection could not be made, or was lost while calls were waiting.
    case connection
    case timedOut
    /// A reply was not RESP, had an unexpected type, or answered no command.
    case unexpectedReply
    /// Redis sent an error reply. Only its first word is kept, because the rest may quote the command.
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
