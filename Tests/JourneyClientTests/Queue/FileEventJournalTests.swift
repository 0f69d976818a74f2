// Tests of the journal's file. Appended records survive, damaged lines do not affect others, and the size of the file
// is bounded. To simulate a crash, a test truncates the file at every byte.

import Foundation
import JourneyClient
import JourneyModel
import Testing

struct FileEventJournalTests {
    private func event(_ id: String) -> QueuedEvent {
        let body = "{\"event_id\":\"\(id)\",\"note\":\"quote \\\" slash \\\\ é 😀 \\u0001 end\"}"
        return QueuedEvent(eventID: id, body: Array(body.utf8), movesState: id != "quiet")
    }

    private func withPath(_ body: (String) throws -> Void) throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "journal-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        try body(folder.appending(path: "events.jsonl").path)
    }

    private func bytes(_ path: String) throws -> [UInt8] {
        Array(try Data(contentsOf: URL(fileURLWithPath: path)))
    }

    private func write(_ bytes: some Sequence<UInt8>, to path: String) throws {
        try Data(bytes).write(to: URL(fileURLWithPath: path))
    }

    @Test("a new journal is empty, and what is appended and not removed is there after a restart, byte for byte")
    func survives() throws {
        try withPath { path in
            var journal = FileEventJournal(path: path)
            #expect(try journal.load().isEmpty)
            for id in ["e1", "quiet", "e3"] { try journal.append(event(id)) }
            try journal.remove(["e1", "unknown"])
            var restarted = FileEventJournal(path: path)
            #expect(try restarted.load() == [event("quiet"), event("e3")])
            #expect(restarted.damagedLines == 0)
        }
    }

    @Test("cut at any byte, the file holds all lines that were whole, and takes the next event")
    func tornAnywhere() throws {
        try withPath { path in
            var journal = FileEventJournal(path: path)
            try journal.append(event("e1"))
            try journal.append(event("e2"))
            try journal.remove(["e1"])
            try journal.append(event("e3"))
            let whole = try bytes(path)
            let ends = whole.indices.filter { whole[$0] == UInt8(ascii: "\n") }
            for length in 0...whole.count {
                try write(whole.prefix(length), to: path)
                var torn = FileEventJournal(path: path)
                let expected = [[], ["e1"], ["e1", "e2"], ["e2"], ["e2", "e3"]][ends.count { $0 < length }]
                #expect(try torn.load().map(\.eventID) == expected, "cut at \(length)")
                try torn.append(event("new"))
                var restarted = FileEventJournal(path: path)
                #expect(try restarted.load().map(\.eventID) == expected + ["new"], "cut at \(length)")
                #expect(restarted.damagedLines == 0, "cut at \(length)")
            }
        }
    }

    @Test("garbage behind the last line, as a crash of the file system leaves it, is cut off")
    func garbageTail() throws {
        try withPath { path in
            var journal = FileEventJournal(path: path)
            try journal.append(event("e1"))
            try write(bytes(path) + [0, 0, 0, 0xFF, UInt8(ascii: "{")], to: path)
            var restarted = FileEventJournal(path: path)
            #expect(try restarted.load() == [event("e1")])
            try restarted.append(event("e2"))
            var again = FileEventJournal(path: path)
            #expect(try again.load() == [event("e1"), event("e2")])
        }
    }

    @Test("a damaged line in the middle costs that line and is counted")
    func damagedMiddle() throws {
        try withPath { path in
            var journal = FileEventJournal(path: path)
            for id in ["e1", "e2", "e3"] { try journal.append(event(id)) }
            var damaged = try bytes(path)
            let second = try #require(damaged.firstIndex(of: UInt8(ascii: "\n"))) + 3
            damaged[second] = 0xFF
            try write(damaged, to: path)
            var restarted = FileEventJournal(path: path)
            #expect(try restarted.load() == [event("e1"), event("e3")])
            #expect(restarted.damagedLines == 1)
        }
    }

    @Test("the file is swept of what was removed, and what is live survives the sweep")
    func swept() throws {
        try withPath { path in
            var journal = FileEventJournal(path: path)
            try journal.append(event("keeper"))
            for index in 0..<1000 {
                try journal.append(event("e\(index)"))
                try journal.remove(["e\(index)"])
            }
            #expect(try bytes(path).count < 64 * 1024)
            try journal.append(event("last"))
            var restarted = FileEventJournal(path: path)
            #expect(try restarted.load() == [event("keeper"), event("last")])
        }
    }

    @Test("a file that cannot be written or read is an error, not a crash, and names no path")
    func unusable() throws {
        try withPath { path in
            var journal = FileEventJournal(path: path + "/nowhere/events.jsonl")
            let failure = #expect(throws: JournalError.self) { try journal.append(event("e1")) }
            #expect(failure?.detail.contains("/") == false)
            try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
            var folder = FileEventJournal(path: path)
            #expect(throws: JournalError.self) { try folder.load() }
        }
    }

    @Test("a file that the system cannot look at is not taken for a missing one")
    func notMissing() throws {
        try withPath { path in
            // The path is a link to itself. Every access fails, but not with the error of a missing file.
            try FileManager.default.createSymbolicLink(atPath: path, withDestinationPath: path)
            var journal = FileEventJournal(path: path)
            #expect(throws: JournalError.self) { try journal.load() }
        }
    }

    @Test("a queue on a file goes on after a crash with what was not acknowledged")
    func queueOnFile() throws {
        try withPath { path in
            var random = ConstantRandom(bits: 1)
            var queue = try EventQueue(driver: DriverID("d1"), journal: FileEventJournal(path: path))
            for (index, id) in ["e1", "e2"].enumerated() {
                _ = try queue.enqueue(.draft(.chargerTargeted, Int64(index)), eventID: id, at: .at(0))
            }
            let events = queue.events
            let next = queue.nextAttempt(at: .at(1), accessToken: "t")
            let attempt = try #require(next)
            _ = queue.handle(
                .batch([.response(.stored("e1")), .problem(Problem(.storeUnavailable, detail: "why"))]), of: attempt,
                at: .at(2), using: &random)
            let restarted = try EventQueue(driver: DriverID("d1"), journal: FileEventJournal(path: path))
            #expect(restarted.events == [events[1]])
        }
    }
}
