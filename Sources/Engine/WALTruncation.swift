// Truncates a WAL that has grown because of a long reader, once nothing has been written for a while. At other
// times the WAL is reset in place, which does not disturb a program that follows it from outside. A WAL beyond a
// limit is logged, since some reader holds it.

package import Logging
internal import StructuredLogging

/// The port of the WAL.
package protocol TruncatableWAL: Sendable {
    /// Truncates the WAL when nothing was committed for that long and something was since the last truncation;
    /// otherwise, or when a reader is in the way, does nothing.
    func truncateLog(quietFor: Duration) async

    /// The size of the WAL; nil when unknown.
    func logBytes() -> Int64?
}

package struct WALTruncation: Sendable {
    /// A truncation takes as long as several commits. After this long without one, a commit is unlikely just then.
    static let quiet = Duration.seconds(10)
    /// A smaller WAL is not worth it: a start after a crash reads it in some milliseconds.
    static let bytesMin: Int64 = 8 * 1024 * 1024
    static let pause = Duration.seconds(5)
    /// One warning per this many looks: an hour.
    static let looksPerWarning = 720

    private let log: any TruncatableWAL
    private let bytesMax: Int64
    private let logger: Logger

    /// - Parameter bytesMax: a WAL beyond it is held by a reader.
    package init(log: any TruncatableWAL, bytesMax: Int64, logger: Logger) {
        self.log = log
        self.bytesMax = bytesMax
        self.logger = logger
    }

    /// Runs until the task is cancelled.
    package func run() async {
        var looksUntilWarning = 0
        while !Task.isCancelled {
            do { try await Task.sleep(for: Self.pause) } catch { return }
            await look(&looksUntilWarning)
        }
    }

    func look(_ looksUntilWarning: inout Int) async {
        if log.logBytes() ?? 0 > Self.bytesMin { await log.truncateLog(quietFor: Self.quiet) }
        guard let bytes = log.logBytes(), bytes > bytesMax else {
            looksUntilWarning = 0
            return
        }
        if looksUntilWarning == 0 {
            logger.warning(
                "WAL is growing: a reader (a backup or a shell) holds an old snapshot",
                metadata: ["bytes": .number(bytes)])
            looksUntilWarning = Self.looksPerWarning
        }
        looksUntilWarning -= 1
    }
}
