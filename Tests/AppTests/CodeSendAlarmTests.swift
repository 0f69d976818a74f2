// Tests of the log lines which report that a limit on one-time codes is almost reached. Each limit has its own line,
// which is written at most once in ten minutes.

import Identity
import JourneyModel
import Logging
import TestSupport
import Testing

@testable import App

@Suite struct CodeSendAlarmTests {
    private let clock = ManualClock()
    private let lines = Lines()
    private let alarm: CodeSendAlarm

    init() {
        alarm = CodeSendAlarm(logger: Logger(label: "test", level: .warning, lines), clock: { [clock] in clock.now })
    }

    private var logged: [String] {
        lines.all.map { line in
            "\(line.level) \(line.message) \(line.metadata["limit"] ?? "") \(line.metadata["sent"] ?? "")"
                + "/\(line.metadata["max"] ?? "")"
        }
    }

    private func line(_ use: String) -> String { "warning hourly limit on one-time codes almost reached \(use)" }

    @Test func `a thousand requested codes are one line`() {
        for sent in 560..<1560 { alarm.warn(of: CodeSendUse(.newcomers, count: sent, max: 700)) }
        #expect(logged == [line("newcomers 560/700")])
    }

    @Test func `each limit has its own line`() {
        for limit in CodeSendUse.Limit.allCases {
            for sent in 8...10 { alarm.warn(of: CodeSendUse(limit, count: sent, max: 10)) }
        }
        #expect(logged == CodeSendUse.Limit.allCases.map { line("\($0.rawValue) 8/10") })
    }

    @Test func `the line is repeated when a code is requested ten minutes after the last line, and not before`() {
        alarm.warn(of: CodeSendUse(.total, count: 800, max: 1000))
        clock.advance(byMilliseconds: CodeSendAlarm.pauseMilliseconds - 1)
        alarm.warn(of: CodeSendUse(.total, count: 900, max: 1000))
        #expect(logged.count == 1)
        clock.advance(byMilliseconds: 1)
        alarm.warn(of: CodeSendUse(.total, count: 1000, max: 1000))
        #expect(logged == [line("total 800/1000"), line("total 1000/1000")])
        clock.advance(byMilliseconds: CodeSendAlarm.pauseMilliseconds - 1)
        alarm.warn(of: CodeSendUse(.total, count: 1000, max: 1000))
        #expect(logged.count == 2)
    }

    @Test func `after the clock was set back, the line is not held back`() {
        for _ in 0..<2 { alarm.warn(of: CodeSendUse(.total, count: 800, max: 1000)) }
        clock.advance(bySeconds: -86_400)
        for _ in 0..<2 { alarm.warn(of: CodeSendUse(.total, count: 900, max: 1000)) }
        #expect(logged == [line("total 800/1000"), line("total 900/1000")])
    }
}
