// A WAL that has grown behind a long reader is cut to nothing once nothing is written for a while. Otherwise it is begun
// anew where it stands, and a program that follows the WAL from outside is not disturbed. One that grows beyond all
// measure is told, since somebody holds it.

package import Logging
internal import Telemetry

/// The port behind which the WAL is.
package protocol TruncatableWAL: Sendable {
    /// Cuts the WAL when nothing was committed for so long and something was since the last cut; else, or when a
    /// reader is in the way, nothing happens.
    func truncateLog(quietFor: Duration) async

    /// Of the WAL; nil when it cannot be told.
    func logBytes() -> Int64?
}

package struct WALTruncation: Sendable {
    /// A cut takes as long as some commits. After so long without one, hardly anybody comes just then.
    static let quiet = Duration.seconds(10)
    /// Less is not worth a wait: a start after a crash reads it in some milliseconds.
    static let bytesMin: Int64 = 8 * 1024 * 1024
    static let pause = Duration.seconds(5)
    /// Told once in so many looks: an hour.
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

    /// Until the task is cancelled.
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
                "the WAL grows: somebody reads an old snapshot, a backup or a shell",
                metadata: ["bytes": .number(bytes)])
            looksUntilWarning = Self.looksPerWarning
        }
        looksUntilWarning -= 1
    }
}
