// Truncates a WAL that a long read transaction has made grow, once nothing has been written for a while. At other times
// SQLite resets the WAL in place, which does not disturb an external program that follows the WAL. If the WAL is larger
// than a limit, a warning is logged, because a reader then keeps SQLite from resetting it.

package import Logging
internal import StructuredLogging

/// The port of the WAL.
package protocol TruncatableWAL: Sendable {
    /// Truncates the WAL if nothing was committed for the duration `quietFor`, there was a commit since the last
    /// truncation, and no reader uses the WAL. Otherwise does nothing.
    func truncateLog(quietFor: Duration) async

    /// Returns the size of the WAL in bytes; nil when unknown.
    func logBytes() -> Int64?
}

package struct WALTruncation: Sendable {
    /// The time without a commit that must pass before a truncation. A truncation takes as long as several commits, and
    /// new commits would have to wait for it. After this time, a commit during the truncation is unlikely.
    static let quiet = Duration.seconds(10)
    /// The size below which the WAL is not truncated. After a crash, the next start reads a WAL of this size in some
    /// milliseconds.
    static let bytesMin: Int64 = 8 * 1024 * 1024
    static let pause = Duration.seconds(5)
    /// The number of checks from one warning to the next, which is one hour.
    static let checksPerWarning = 720

    private let log: any TruncatableWAL
    private let bytesMax: Int64
    private let logger: Logger

    /// - Parameter bytesMax: the size that the WAL exceeds only if a reader keeps SQLite from resetting it.
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
