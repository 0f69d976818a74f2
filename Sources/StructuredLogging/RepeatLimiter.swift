// Limits how many lines per second one message may write to the log. Without this limit, a failure of every request
// would write one line per request.

internal import Synchronization

/// The counts of written and omitted lines per message, shared by all copies of a logger.
package final class RepeatLimiter: Sendable {
    /// Maximum number of lines of one message per second.
    static let linesPerSecondMax = 50
    /// The maximum number of messages with a count of their own. All other messages share one count. The server has far
    /// fewer messages, because they are constants in the source.
    static let messagesMax = 1024

    private struct Count: Sendable {
        var second: Int64
        var lines = 0
        /// The number of lines omitted since the last written line.
        var omitted = 0
    }

    private let counts = Mutex<[String: Count]>([:])
    /// Messages whose number of lines is limited elsewhere.
    private let unlimited: Set<String>

    package init(unlimited: Set<String> = []) {
        self.unlimited = unlimited
    }

    /// Returns how many lines of this message were omitted since its last written line. Returns nil when the new line
    /// must be omitted too.
    func admit(_ message: String, atMilliseconds milliseconds: Int64) -> Int? {
        if unlimited.contains(message) { return 0 }
        let second = milliseconds / 1000
        return counts.withLock { counts in
            let name = counts[message] != nil || counts.count < Self.messagesMax ? message : ""
            var count = counts[name] ?? Count(second: second)
            defer { counts[name] = count }
            if second != count.second { (count.second, count.lines) = (second, 0) }
            guard count.lines < Self.linesPerSecondMax else {
                count.omitted += 1
                return nil
            }
            count.lines += 1
            defer { count.omitted = 0 }
            return count.omitted
        }
    }

    /// The number of counted messages, for the test of `messagesMax`.
    var messageCount: Int { counts.withLock { $0.count } }
}
