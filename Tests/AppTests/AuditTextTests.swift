// Tests the output of `dwell audit` as a table and as JSON. The table escapes control characters, so that the terminal
// does not execute them.

import Foundation
import Identity
import JourneyModel
import Testing

@testable import App

@Suite struct AuditTextTests {
    private let entries = [
        AuditEntry(
            id: 7, at: Moment(millisecondsSinceEpoch: 1_800_000_000_123), action: .refreshReuse, outcome: .refused,
            reason: nil, driver: DriverID("drv_1"), sid: "sid_1", address: "192.0.2.1", requestID: "r-1"),
        AuditEntry(
            id: 6, at: Moment(millisecondsSinceEpoch: 1_800_000_000_000), action: .signInOTP, outcome: .done,
            reason: "new\u{1B}[2Jaccount", driver: DriverID("drv_1"), sid: nil, address: nil, requestID: nil),
    ]

    @Test func theTable() {
        let lines = AuditText.table(entries).split(separator: "\n")
        let cells = lines.map { line in line.split(separator: #/\s\s+/#).map(String.init) }
        #expect(
            cells == [
                ["TIME", "ACTION", "OUTCOME", "REASON", "ADDRESS", "SESSION", "REQUEST"],
                ["2027-01-15T08:00:00.123Z", "refresh_reuse", "refused", "-", "192.0.2.1", "sid_1", "r-1"],
                ["2027-01-15T08:00:00.000Z", "sign_in_otp", "done", "new\\u{1B}[2Jaccount", "-", "-", "-"],
            ])
        let starts = lines.map { $0.range(of: " 192.0.2.1") ?? $0.range(of: " ADDRESS") }
        #expect(starts[0]?.lowerBound.utf16Offset(in: lines[0]) == starts[1]?.lowerBound.utf16Offset(in: lines[1]))
    }

    @Test func theDocument() {
        #expect(
            AuditText.json(Array(entries.prefix(1)), of: DriverID("drv_1"))
                == #"{"driver":"drv_1","entries":[{"id":7,"at":"2027-01-15T08:00:00.123Z","action":"refresh_reuse","#
                + #""outcome":"refused","reason":null,"driver":"drv_1","sid":"sid_1","address":"192.0.2.1","#
                + #""request_id":"r-1"}]}"#)
        #expect(AuditText.json([], of: DriverID("x")) == #"{"driver":"x","entries":[]}"#)
    }
}
