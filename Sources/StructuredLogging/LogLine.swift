// Renders one log line as bytes. The line depends only on the logged record and its time. For any input the result is
// exactly one line of at most `lineBytesMax` bytes, and valid JSON in the JSON format.
//
// Control characters are escaped in both formats, so that input cannot forge a line or control the terminal.

package import Logging

/// The rendering of log records as lines.
package enum LogLine {
    /// The value of `PIPE_BUF` on Linux. A write of up to this many bytes to a pipe is atomic: no bytes of other
    /// processes appear inside it (pipe(7)).
    package static let lineBytesMax = 4096
    /// The approximate maximum length of a value in bytes, including escapes. A longer value is cut, and `...` is
    /// added. A line of `lineBytesMax` always has room for a label, a message and an error of this length.
    static let valueBytesMax = 1024
    /// The maximum depth of nested metadata. Deeper metadata is shown as `...`. The limit protects against endless
    /// recursion caused by a bug.
    static let depthMax = 4

    /// The member names that the line itself uses. If metadata uses one of these names, an underscore is appended to
    /// the metadata's name.
    static let ownNames: Set<String> = ["time", "level", "logger", "message", "error", "truncated"]

    /// Returns the line with its final newline, in UTF-8. `milliseconds` is the time since 1970-01-01T00:00:00Z.
    package static func render(
        _ event: LogEvent, label: String, metadata: Logger.Metadata, atMilliseconds milliseconds: Int64,
        as format: LogFormat
    ) -> [UInt8] {
        switch format {
        case .json: json(event, label: label, metadata: metadata, milliseconds: milliseconds)
        case .text: text(event, metadata: metadata, milliseconds: milliseconds)
        }
    }

    private static func json(
        _ event: LogEvent, label: String, metadata: Logger.Metadata, milliseconds: Int64
    ) -> [UInt8] {
        var line = LineBuffer()
        line.append("{\"time\":\"")
        line.append(timestamp(milliseconds))
        line.append("\",\"level\":\"")
        line.append(event.level.rawValue)
        line.append("\",\"logger\":")
        line.appendQuoted(label)
        line.append(",\"message\":")
        line.appendQuoted(event.message.description)
        if let error = event.error {
            line.append(",\"error\":")
            line.appendQuoted(String(describing: error))
        }
        line.appendEntries(of: metadata, roomFor: ",\"truncated\":true}\n") { line, name, value in
            line.append(",")
            line.appendQuoted(name)
            line.append(":")
            line.appendJSON(value, depth: 0)
        } whenCut: { line in
            line.append(",\"truncated\":true")
        }
        line.append("}\n")
        return line.bytes
    }

    private static func text(_ event: LogEvent, metadata: Logger.Metadata, milliseconds: Int64) -> [UInt8] {
        var line = LineBuffer()
        line.append(timestamp(milliseconds))
        line.append(" ")
        let level = event.level.rawValue.uppercased()
        line.append(level + String(repeating: " ", count: max(0, 8 - level.utf8.count)))
        line.append(" ")
        line.appendEscaped(event.message.description)
        if let error = event.error {
            line.append(" error=")
            line.appendWord(String(describing: error))
        }
        line.appendEntries(of: metadata, roomFor: " truncated=true\n") { line, name, value in
            line.append(" ")
            line.appendWord(name)
            line.append("=")
            line.appendText(value)
        } whenCut: { line in
            line.append(" truncated=true")
        }
        line.append("\n")
        return line.bytes
    }
}
