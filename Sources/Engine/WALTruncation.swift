// Truncates a WAL that has grown because of a long read transaction, once nothing has been written for a while. At
// other times SQLite resets the WAL in place, which does not disturb an external program that follows the WAL. A WAL
// beyond a limit is logged, because some reader keeps it from being reset.

package import Logging
internal import StructuredLogging

/// The port of the WAL.
package protocol TruncatableWAL: Sendable {
    /// Truncates the WAL if nothing was committed for that long, there was a commit since the last truncation, and no
    /// reader uses the WAL. Otherwise does nothing.
    func truncateLog(quietFor: Duration) async

    /// Returns the size of the WAL in bytes; nil when unknown.
    func logBytes() -> Int64?
}

package struct WALTruncation: Sendable {
    /// A truncation takes as long as several commits, which would have to wait. After this long without a commit, one
    /// is unlikely during the truncation.
    static let quiet = Duration.seconds(10)
    /// A smaller WAL is not truncated: a start after a crash reads it in some milliseconds.
    static let bytesMin: Int64 = 8 * 1024 * 1024
    static let pause = Duration.seconds(5)
    /// The number of checks between two warnings: one hour.
    static let checksPerWarning = 720

    private let log: any TruncatableWAL
    private let bytesMax: Int64
    private let logger: Logger

    /// - Parameter bytesMax: the size beyond which a reader must be keeping the WAL from being reset.
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
