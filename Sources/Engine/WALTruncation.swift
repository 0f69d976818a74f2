// Truncates a WAL (write-ahead log) that has grown during a long read transaction, once nothing has been written for a
// while.
//
// Without long read transactions, no truncation is needed, because SQLite then reuses the WAL from its beginning. This
// reuse does not disturb an external program that follows the WAL.
//
// A warning is logged while the WAL is larger than a limit, because a long read transaction then keeps SQLite from
// reusing the WAL.

package import Logging
internal import StructuredLogging

/// The port of the WAL.
package protocol TruncatableWAL: Sendable {
    /// Truncates the WAL if a commit followed the last truncation, no commit happened during the last `quietFor`, and
    /// no reader uses the WAL. Otherwise does nothing.
    func truncateLog(quietFor: Duration) async

    /// Returns the size of the WAL in bytes; nil when unknown.
    func logBytes() -> Int64?
}

package struct WALTruncation: Sendable {
    /// The time that must pass without a commit before a truncation begins. A truncation takes as long as several
    /// commits, and delays any commit that begins meanwhile. After this time without a commit, another commit is
    /// unlikely to begin soon.
    static let quiet = Duration.seconds(10)
    /// A WAL of at most this size is not truncated, because the next start after a crash reads it in a few
    /// milliseconds.
    static let bytesMin: Int64 = 8 * 1024 * 1024
    static let pause = Duration.seconds(5)
    /// The number of checks between two warnings. This many checks take one hour.
    static let checksPerWarning = 720

    private let log: any TruncatableWAL
    private let bytesMax: Int64
    private let logger: Logger

    /// - Parameter bytesMax: the size above which a warning is logged. Without a long read transaction, SQLite reuses
    ///   the WAL before it grows this large.
    package init(log: any TruncatableWAL, bytesMax: Int64, logger: Logger) {
        self.log = log
        self.bytesMax = bytesMax
        self.logger = logger
    }

    /// Runs until the task is cancelled.
    package func run() async {
        var checksUntilWarning = 0
        while !Task.isCancelled {
            do { try await Task.sleep(for: Self.pause) } catch { return }
            await check(&checksUntilWarning)
        }
    }

    func check(_ checksUntilWarning: inout Int) async {
        if log.logBytes() ?? 0 > Self.bytesMin { await log.truncateLog(quietFor: Self.quiet) }
        guard let bytes = log.logBytes(), bytes > bytesMax else {
            checksUntilWarning = 0
            return
        }
        if checksUntilWarning == 0 {
            logger.warning(
                "WAL is growing: a reader (a backup or a shell) holds an old snapshot",
                metadata: ["bytes": .number(bytes)])
            checksUntilWarning = Self.checksPerWarning
        }
        checksUntilWarning -= 1
    }
}
