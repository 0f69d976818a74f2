// A logger whose lines a test can read.

package import Logging
import Synchronization

/// A logger backend that records each line and the metadata of the call. It does not record the logger's own metadata.
package final class LoggedLines: Sendable {
    private let all = Mutex<[String]>([])

    package init() {}

    package var lines: [String] { all.withLock { $0 } }

    package var logger: Logger {
        Logger(label: "test") { _ in Handler(lines: self) }
    }

    private struct Handler: LogHandler {
        let lines: LoggedLines
        var logLevel = Logger.Level.trace
        var metadata: Logger.Metadata = [:]

        subscript(metadataKey key: String) -> Logger.MetadataValue? {
            get { metadata[key] }
            set { metadata[key] = newValue }
        }

        func log(event: LogEvent) {
            lines.all.withLock { $0.append("\(event.level) \(event.message) \(event.metadata ?? [:])") }
        }
    }
}
