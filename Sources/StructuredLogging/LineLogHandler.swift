// The backend for swift-log. It writes each record as one line.

package import Logging

/// A log handler that writes every record as one line (see `LogLine`).
package struct LineLogHandler: LogHandler {
    package var logLevel: Logger.Level
    package var metadata: Logger.Metadata = [:]
    package var metadataProvider: Logger.MetadataProvider?

    private let label: String
    private let format: LogFormat
    private let output: LogOutput
    private let repeats: RepeatLimiter
    private let clock: @Sendable () -> Int64

    /// Creates a handler. `clock` returns milliseconds since 1970-01-01T00:00:00Z.
    package init(
        label: String, level: Logger.Level, format: LogFormat, output: LogOutput = .standardError,
        repeats: RepeatLimiter = RepeatLimiter(), clock: @escaping @Sendable () -> Int64 = millisecondsSince1970
    ) {
        self.label = label
        self.logLevel = level
        self.format = format
        self.output = output
        self.repeats = repeats
        self.clock = clock
    }

    package subscript(metadataKey key: String) -> Logger.MetadataValue? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    package func log(event: LogEvent) {
        let now = clock()
        guard let omitted = repeats.admit(event.message.description, atMilliseconds: now) else { return }
        // If a name occurs several times, the call's value wins over the logger's. The logger's value wins over the
        // provider's.
        var all = metadataProvider?.get() ?? [:]
        all.merge(metadata) { _, nearer in nearer }
        if let own = event.metadata { all.merge(own) { _, nearer in nearer } }
        if omitted > 0 { all["omitted_before"] = .number(omitted) }
        output.write(LogLine.render(event, label: label, metadata: all, atMilliseconds: now, as: format)) { count in
            let notice = LogEvent(
                level: .warning, message: "log lines dropped: log reader too slow", metadata: nil,
                source: "Telemetry", file: #fileID, function: #function, line: #line)
            return LogLine.render(
                notice, label: label, metadata: ["dropped": .number(count)], atMilliseconds: now, as: format)
        }
    }
}

extension Logger {
    /// Creates a logger that writes lines in `format` to `output`. There is no global logger, so pass the logger to the
    /// code that uses it.
    package init(
        label: String, level: Logger.Level, format: LogFormat, output: LogOutput,
        repeats: RepeatLimiter = RepeatLimiter()
    ) {
        self.init(label: label) { label in
            LineLogHandler(label: label, level: level, format: format, output: output, repeats: repeats)
        }
    }
}
