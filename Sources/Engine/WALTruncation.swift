// Truncates a WAL that has grown during a long read transaction. The truncation waits until nothing has been written
// for a while. Without long read transactions, no truncation is needed: SQLite reuses the WAL from its beginning, which
// does not disturb an external program that follows the WAL. If the WAL is larger than a limit, a long read transaction
// is keeping SQLite from reusing it, and a warning is logged.

package import Logging
internal import StructuredLogging

/// The port of the WAL.
package protocol TruncatableWAL: Sendable {
    /// Truncates the WAL under three conditions: there was a commit since the last truncation, there was no commit
    /// during the last `quietFor`, and no reader uses the WAL. Otherwise does nothing.
    func truncateLog(quietFor: Duration) async

    /// Returns the size of the WAL in bytes; nil when unknown.
    func logBytes() -> Int64?
}

package struct WALTruncation: Sendable {
    /// The time that must pass without a commit before a truncation begins. A truncation takes as long as several
    /// commits, and a commit during the truncation has to wait. Such a commit is unlikely after this time.
    static let quiet = Duration.seconds(10)
    /// The size up to which the WAL is not truncated, because after a crash the next start reads a WAL of this size in
    /// a few milliseconds.
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
