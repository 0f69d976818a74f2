// Tests the bytes of the column `recent_changes`, and the numbers of lanes. Stored rows depend on both.

import JourneyModel
import TestSupport
import Testing

@testable import PostgresStore

struct RecentJourneyChangesTests {
    private func journey(_ random: inout SeededRandom) -> Journey {
        let moment = { (random: inout SeededRandom) -> Moment? in
            random.chance(1, in: 2)
                ? Moment(millisecondsSinceEpoch: Int64.random(in: -5_000_000...(1 << 50), using: &random)) : nil
        }
        return Journey(
            state: JourneyState.allCases.randomPick(&random),
            sessionID: [nil, "s", "s", "\u{212A}", "K", String(repeating: "ä", count: 128)].randomPick(&random),
            targetChargerID: "not stored", graceDeadline: moment(&random), hardDeadline: moment(&random),
            endedBy: random.chance(1, in: 3) ? Journey.Ending.allCases.randomPick(&random) : nil)
    }

    @Test func `what is written is read, and the oldest changes are dropped`() {
        var random = SeededRandom(seed: 7)
        for _ in 0..<200 {
            var recent = RecentJourneyChanges()
            var (before, expected) = (Journey(), [RecentJourneyChanges.Change]())
            for seq in Int64(1)...Int64.random(in: 1...40, using: &random) {
                let next = journey(&random)
                recent.note(next, after: before, seq: seq)
                if RecentJourneyChanges.seen(next) != RecentJourneyChanges.seen(before) {
                    expected.append(.init(seq: seq, journey: next))
                }
                before = next
            }
            let read = RecentJourneyChanges(bytes: recent.bytes)
            #expect(read.changes == recent.changes)
            #expect(read.changes == Array(expected.suffix(RecentJourneyChanges.countMax)))
        }
    }

    @Test func `bytes of another form are no changes`() {
        var recent = RecentJourneyChanges()
        recent.note(Journey(state: .anchored, sessionID: "session"), after: Journey(), seq: 300)
        recent.note(
            Journey(state: .sessionEnded, sessionID: "session", endedBy: .grace), after: Journey(), seq: 301)
        let whole = recent.bytes
        #expect(RecentJourneyChanges(bytes: whole).changes.count == 2)
        for count in 1..<whole.count {
            #expect(RecentJourneyChanges(bytes: Array(whole.prefix(count))).changes.count <= 1)
        }
        #expect(RecentJourneyChanges(bytes: [7]).changes.isEmpty, "an unknown state")
        #expect(RecentJourneyChanges(bytes: [0x80, 1]).changes.isEmpty, "no session to repeat")
    }

    @Test func `a lane depends on the bytes of the text only`() {
        #expect(Lane.of("") == 961)
        #expect(Lane.of("driver-1") != Lane.of("driver-2"))
        #expect(Lane.of("\u{212A}") != Lane.of("K"))
        let id = Lane.newDriverID(in: 1023)
        #expect(id > 0 && id >> 53 == 1023)
    }
}
