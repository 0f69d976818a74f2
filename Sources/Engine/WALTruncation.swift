// Truncates the WAL (write-ahead log) if it has grown during a long read transaction. The truncation begins only after
// a pause without commits.
//
// Without long read transactions, SQLite reuses the WAL from its beginning, so no truncation is needed. This reuse does
// not disturb an external program that follows the WAL.
//
// While the WAL is larger than a limit, this task logs warnings. The WAL only grows so large if a long read transaction
// keeps SQLite from reusing it.

package import Logging
internal import StructuredLogging

/// The port of the WAL.
package protocol TruncatableWAL: Sendable {
    /// Truncates the WAL. Does nothing if nothing was committed since the last truncation, if the last commit is more
    /// recent than `quietFor`, or if a reader uses the WAL.
    func truncateLog(quietFor: Duration) async

    /// Returns the size of the WAL in bytes; nil when unknown.
    func logBytes() -> Int64?
}

package struct WALTruncation: Sendable {
    /// The time without a commit before a truncation begins. A commit that begins during a truncation is delayed by the
    /// duration of several commits. After this time without a commit, such a commit is unlikely.
    static let quiet = Duration.seconds(10)
    /// A WAL of at most this size is not truncated. After a crash, the next start reads such a WAL in a few
    /// milliseconds.
    static let bytesMin: Int64 = 8 * 1024 * 1024
    static let pause = Duration.seconds(5)
    /// The number of checks between two warnings. The checks are `pause` apart, so this is one hour.
    static let checksPerWarning = 720

    private let log: any TruncatableWAL
    private let bytesMax: Int64
    private let logger: Logger

    /// - Parameter bytesMax: above this size, a warning is logged. Only a long read transaction makes the WAL this
    ///   large.
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
