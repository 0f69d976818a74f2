// Limits how often one message is written: a failure that every request meets would log a line for each, and the
// log must not grow with what clients send. The next line of that message reports how many were omitted.

internal import Synchronization

/// Shared by all copies of a logger.
package final class RepeatLimiter: Sendable {
    /// Lines of one message in a second.
    static let linesPerSecondMax = 50
    /// Messages are constants of the source, a few hundred; more than this share one count.
    static let messagesMax = 1024

    private struct Count: Sendable {
        var second: Int64
        var lines = 0
        /// Since the last line.
        var omitted = 0
    }

    private let counts = Mutex<[String: Count]>([:])
    /// Messages that are bounded elsewhere.
    private let unlimited: Set<String>

    package init(unlimited: Set<String> = []) {
        self.unlimited = unlimited
    }

    /// Returns how many lines of this message were omitted since the last one; nil when this one is omitted too.
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

    /// For the test of the bound.
    var messageCount: Int { counts.withLock { $0.count } }
}
