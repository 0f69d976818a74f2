// Tests that the log has only whole lines and that logging does not block when the reader stops. When the reader
// continues, the log reports the number of dropped lines. A real pipe is used.

import Foundation
import Logging
import Testing

@testable import StructuredLogging

@Suite struct LogOutputTests {
    func piped(_ format: LogFormat = .json, level: Logger.Level = .info) -> (logger: Logger, reader: FileHandle, Pipe) {
        let pipe = Pipe()
        let output = LogOutput(descriptor: pipe.fileHandleForWriting.fileDescriptor)
        let logger = Logger(label: "test") { label in
            // These tests write many equal messages, so the limit on repeats is off.
            LineLogHandler(
                label: label, level: level, format: format, output: output,
                repeats: RepeatLimiter(unlimited: ["line", "t"]), clock: { 0 })
        }
        return (logger, pipe.fileHandleForReading, pipe)
    }

    @Test func metadataOfCallLoggerAndProviderMeetInOneLine() throws {
        let pipe = Pipe()
        let output = LogOutput(descriptor: pipe.fileHandleForWriting.fileDescriptor)
        var logger = Logger(label: "test") { label in
            var handler = LineLogHandler(label: label, level: .info, format: .json, output: output, clock: { 0 })
            handler.metadataProvider = .init { ["from": "provider", "trace_id": "t"] }
            return handler
        }
        logger[metadataKey: "from"] = "logger"
        logger[metadataKey: "request_id"] = "r"
        logger.info("hello", metadata: ["from": "call"])
        logger.debug("too quiet to be written")
        try pipe.fileHandleForWriting.close()
        let text = String(decoding: pipe.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        #expect(
            text == #"{"time":"1970-01-01T00:00:00.000Z","level":"info","logger":"test","message":"hello","#
                + #""from":"call","request_id":"r","trace_id":"t"}"# + "\n")
    }

    @Test func aStoppedReaderDoesNotStopTheWriterAndTheLossIsTold() throws {
        let (logger, reader, pipe) = piped()
        let value = String(repeating: "v", count: 1000)
        let lines = 500  // about 500 KB into a pipe of 64 KiB
        for index in 0..<lines { logger.info("line", metadata: ["index": "\(index)", "v": "\(value)"]) }
        // The test gets here only if the logger has not blocked, because nothing was read before.
        let first = reader.availableData
        logger.info("after")
        try pipe.fileHandleForWriting.close()
        let text = String(decoding: first + reader.readDataToEndOfFile(), as: UTF8.self)
        let written = try text.split(separator: "\n").map {
            try #require(try JSONSerialization.jsonObject(with: Data($0.utf8)) as? [String: Any])
        }
        let indices = written.compactMap { ($0["index"] as? String).flatMap { Int($0) } }
        #expect(indices == Array(0..<indices.count), "what is written is whole and in order")
        #expect(indices.count < lines)
        #expect(written.contains { $0["message"] as? String == "after" })
        let dropped = written.compactMap { $0["dropped"] as? Int }
        #expect(dropped == [lines - indices.count])
    }

    @Test func aReaderThatWentAwayDoesNotEndTheProcess() throws {
        // The test runner may ignore SIGPIPE. The default action ends the process, so this test needs the default
        // action.
        let action = signal(SIGPIPE, SIG_DFL)
        defer { _ = signal(SIGPIPE, action) }
        let (logger, reader, pipe) = piped()
        try reader.close()
        logger.info("nobody listens")
        try pipe.fileHandleForWriting.close()

        var ends: [Int32] = [-1, -1]
        try #require(socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0, &ends) == 0)
        close(ends[0])
        LogOutput(descriptor: ends[1]).write(Array("nobody listens\n".utf8)) { _ in [] }
        close(ends[1])
    }

    @Test func linesOfManyThreadsStayWhole() async throws {
        let (logger, reader, pipe) = piped()
        await withTaskGroup(of: Void.self) { group in
            for task in 0..<8 {
                group.addTask {
                    for index in 0..<40 { logger.info("t", metadata: ["id": "\(task).\(index)"]) }
                }
            }
        }
        try pipe.fileHandleForWriting.close()
        let lines = reader.readDataToEndOfFile().split(separator: UInt8(ascii: "\n"))
        let ids = try lines.map { try JSONSerialization.jsonObject(with: $0) as? [String: Any] }
            .compactMap { $0?["id"] as? String }
        #expect(lines.count == 320 && Set(ids).count == 320)
    }

    @Test func aPipeIsNoTerminal() {
        let pipe = Pipe()
        #expect(!LogOutput(descriptor: pipe.fileHandleForWriting.fileDescriptor).isTerminal)
    }
}
