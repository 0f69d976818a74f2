// Tests the bytes of a log line. A line has no control characters and does not exceed the maximum length. Foundation's
// parser checks JSON lines against RFC 8259.

import Foundation
import Logging
import Testing

@testable import StructuredLogging

@Suite struct LogLineTests {
    /// 2026-02-03T04:05:06.007Z
    static let moment: Int64 = 1_770_091_506_007

    func render(
        _ message: Logger.Message, _ metadata: Logger.Metadata = [:], level: Logger.Level = .info,
        error: (any Error)? = nil, as format: LogFormat
    ) -> String {
        let event = LogEvent(
            level: level, message: message, error: error, metadata: nil, source: nil, file: "", function: "", line: 0)
        let line = LogLine.render(
            event, label: "dwell", metadata: metadata, atMilliseconds: Self.moment, as: format)
        return String(decoding: line, as: UTF8.self)
    }

    @Test func jsonGolden() {
        let line = render(
            "event stored",
            ["status": "200", "request_id": "r-1", "time": "0.4", "nested": ["b": ["x", "y"], "a": "1"]],
            as: .json)
        #expect(
            line == #"{"time":"2026-02-03T04:05:06.007Z","level":"info","logger":"dwell","message":"event stored","#
                + #""nested":{"a":"1","b":["x","y"]},"request_id":"r-1","status":"200","time_":"0.4"}"# + "\n")
    }

    @Test func `figures are numbers in JSON, texts that look like them are texts`() {
        let line = render(
            "x",
            [
                "count": .number(-3), "size": .number(UInt64.max), "share": .number(0.25), "is_it": .bool(true),
                "nothing": .number(Double.nan), "text": "3", "list": .array([.number(1), "1"]),
            ], as: .json)
        #expect(
            line.hasSuffix(
                #""message":"x","count":-3,"is_it":true,"list":[1,"1"],"nothing":"nan","share":0.25,"#
                    + #""size":18446744073709551615,"text":"3"}"# + "\n"))
        #expect(render("x", ["count": .number(3)], as: .text).hasSuffix("x count=3\n"))
    }

    @Test func textGolden() {
        let line = render(
            "Redis does not answer", ["request_id": "r-1", "detail": "timed out", "empty": ""], level: .warning,
            as: .text)
        #expect(
            line
                == #"2026-02-03T04:05:06.007Z WARNING  Redis does not answer detail="timed out" empty="" request_id=r-1"#
                + "\n")
    }

    @Test func anErrorIsAMember() {
        struct Refused: Error, CustomStringConvertible { let description = "no \"such\" file" }
        #expect(render("x", error: Refused(), as: .json).contains(#""message":"x","error":"no \"such\" file"}"#))
        #expect(render("x", error: Refused(), as: .text).hasSuffix(#"x error="no \"such\" file""# + "\n"))
    }

    static let hostile: [String] = [
        "", "\n{\"level\":\"info\"}", "\r\n", "\u{1B}[2J\u{7}", "\u{0}", "\u{9B}31m", "\u{2028}", "\"", "\\", "\\\"",
        "\u{7F}", "na\u{EF}ve", "\u{1F697}", "a=b", String(repeating: "\u{1}", count: 5000),
        String(repeating: "\u{1F697}", count: 5000),
    ]

    @Test(arguments: hostile, LogFormat.allCases)
    func hostileTextStaysOneLineWithoutControls(text: String, format: LogFormat) throws {
        let line = render("\(text)", [text: "\(text)", "k": "\(text)"], error: Hostile(description: text), as: format)
        #expect(line.utf8.count <= LogLine.lineBytesMax)
        let body = line.dropLast()
        #expect(line.last == "\n")
        let controls = body.unicodeScalars.filter { $0.properties.generalCategory == .control || $0 == "\u{2028}" }
        #expect(controls.isEmpty)
        guard format == .json else { return }
        let parsed = try JSONSerialization.jsonObject(with: Data(body.utf8)) as? [String: Any]
        let message = try #require(parsed?["message"] as? String)
        #expect(message == text || (message.hasSuffix("...") && text.hasPrefix(message.dropLast(3))))
    }

    struct Hostile: Error, CustomStringConvertible { var description: String }

    @Test(arguments: LogFormat.allCases)
    func metadataThatLeavesNoRoomIsCutAndTheLineSaysSo(format: LogFormat) throws {
        let metadata = Dictionary(
            uniqueKeysWithValues: (10..<30).map {
                ("key\($0)", Logger.MetadataValue.string(String(repeating: "v", count: 500)))
            })
        let line = render("full", metadata, as: format)
        #expect(line.utf8.count <= LogLine.lineBytesMax)
        #expect(line.contains("key10") && !line.contains("key29"))
        switch format {
        case .text: #expect(line.hasSuffix(" truncated=true\n"))
        case .json:
            let parsed = try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any]
            #expect(parsed?["truncated"] as? Bool == true)
        }
    }

    @Test func deepMetadataEnds() {
        var value: Logger.MetadataValue = "bottom"
        for _ in 0..<1000 { value = ["d": value] }
        let line = render("deep", ["m": value], as: .json)
        #expect(line.contains("\"...\"") && !line.contains("bottom"))
    }

    @Test(
        arguments: [
            (0, "1970-01-01T00:00:00.000Z"), (951_782_399_999, "2000-02-28T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"), (951_868_800_000, "2000-03-01T00:00:00.000Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"), (-1, "1969-12-31T23:59:59.999Z"),
            (-62_167_219_200_000, "0000-01-01T00:00:00.000Z"), (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
            (Int64.max, "9999-12-31T23:59:59.999Z"), (Int64.min, "0000-01-01T00:00:00.000Z"),
        ] as [(Int64, String)])
    func timestamps(milliseconds: Int64, text: String) {
        #expect(timestamp(milliseconds) == text)
    }
}
