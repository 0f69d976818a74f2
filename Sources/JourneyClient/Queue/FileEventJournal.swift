// A journal in an append-only file. Two rules ensure that a crash does not damage the journal:
//
// - A line is valid only if it ends with a line feed.
// - Each write first removes an incomplete last line.

import Foundation

/// One driver's unsent events in one file. Nothing else may write this file.
///
/// Every append and removal is on disk (`fsync`) when the call returns. The file is compacted when it consists mostly
/// of removed events.
///
/// If a crash left an incomplete last line, the next write removes that line. Any other damaged line is skipped and
/// counted.
///
/// The file must be readable while the phone is locked, because a geofence may wake the app during that time. Set the
/// data protection of the folder, not of the file, because a compaction replaces the file. The folder must exist.
///
/// After a restart of the phone, the file may be unreadable until the first unlock. `load` then throws. It never treats
/// an unreadable file as empty.
public struct FileEventJournal: EventJournal, Sendable {
    private let path: String
    private var events: [QueuedEvent] = []
    /// The length in bytes of all complete lines in the file. Nil before the file is read.
    private var goodBytes: UInt64?
    private var lines = 0
    /// True after the file was created or replaced, until the folder is synced. After a crash in between, `path` may
    /// have no file or the old file. The next write therefore syncs the folder.
    private var hasUnsyncedName = false
    /// Number of unreadable lines that were found when the file was loaded. An incomplete last line is not counted.
    public private(set) var damagedLines = 0

    /// A file with fewer lines than this is not compacted. With events of the usual size, such a file has at most about
    /// 100 KiB.
    private static let sweepLinesMin = 256

    public init(path: String) {
        self.path = path
    }

    public mutating func load() throws(JournalError) -> [QueuedEvent] {
        let bytes = try read()
        let end = bytes.lastIndex(of: UInt8(ascii: "\n")).map { $0 + 1 } ?? 0
        let written = bytes[..<end].split(separator: UInt8(ascii: "\n"))
        events = []
        lines = written.count
        damagedLines = 0
        for line in written { replay(line) }
        goodBytes = UInt64(end)
        sweepIfWorthwhile()
        return events
    }

    public mutating func append(_ event: QueuedEvent) throws(JournalError) {
        if goodBytes == nil { _ = try load() }
        try write(.add(event))
        events.append(event)
    }

    public mutating func remove(_ eventIDs: [String]) throws(JournalError) {
        if goodBytes == nil { _ = try load() }
        let present = eventIDs.filter { id in events.contains { $0.eventID == id } }
        guard !present.isEmpty else { return }
        try write(.removed(present))
        events.removeAll { present.contains($0.eventID) }
        sweepIfWorthwhile()
    }

    private mutating func replay(_ line: ArraySlice<UInt8>) {
        switch JournalLine(line) {
        case .add(let event): events.append(event)
        case .removed(let eventIDs): events.removeAll { eventIDs.contains($0.eventID) }
        case nil: damagedLines += 1
        }
    }
}

// MARK: The file

extension FileEventJournal {
    private var url: URL { URL(fileURLWithPath: path) }

    /// Returns the bytes of the file; none if the file is missing. Throws if the system refuses access to the file.
    /// `fileExists` is not used, because it returns false for such a file. The next write would then overwrite the
    /// file.
    private func read() throws(JournalError) -> [UInt8] {
        do {
            return Array(try Data(contentsOf: url))
        } catch let error as CocoaError where error.code == .fileReadNoSuchFile {
            return []
        } catch {
            throw JournalError("the journal cannot be read: \((error as NSError).code)")
        }
    }

    /// Writes a line after the last valid byte. A failed write may have left bytes there, which are removed first.
    private mutating func write(_ line: JournalLine) throws(JournalError) {
        let bytes = line.encoded
        let offset = goodBytes ?? 0
        do {
            let file = try openForWriting()
            defer { try? file.close() }
            try file.truncate(atOffset: offset)
            try file.seek(toOffset: offset)
            try file.write(contentsOf: Data(bytes))
            try file.synchronize()
            if hasUnsyncedName { try synchronizeFolder() }
            hasUnsyncedName = false
        } catch {
            throw JournalError("the journal cannot be written: \((error as NSError).code)")
        }
        goodBytes = offset + UInt64(bytes.count)
        lines += 1
    }

    /// Opens the file, or creates it if it is missing. Never overwrites a file that exists but cannot be opened.
    private mutating func openForWriting() throws -> FileHandle {
        if let file = try? FileHandle(forWritingTo: url) { return file }
        try Data().write(to: url, options: .withoutOverwriting)
        hasUnsyncedName = true
        return try FileHandle(forWritingTo: url)
    }

    /// If the file has many unneeded lines, replaces it atomically with a file that contains only the queued events. A
    /// failure is not reported, because `path` still names a file with all queued events. The next removal tries again.
    private mutating func sweepIfWorthwhile() {
        guard lines >= Self.sweepLinesMin, lines > 4 * events.count else { return }
        let bytes = events.flatMap { JournalLine.add($0).encoded }
        let sweptURL = URL(fileURLWithPath: path + ".swept")
        do {
            try Data(bytes).write(to: sweptURL)
            let file = try FileHandle(forWritingTo: sweptURL)
            defer { try? file.close() }
            try file.synchronize()
        } catch {
            return
        }
        guard rename(sweptURL.path, path) == 0 else { return }
        // Until the folder is synced, a crash may bring back the old file. Events are now written to the new file, so
        // they are not durable before the folder is synced.
        goodBytes = UInt64(bytes.count)
        lines = events.count
        hasUnsyncedName = true
        do { try synchronizeFolder() } catch { return }
        hasUnsyncedName = false
    }

    /// Syncs the folder, so that the name of a new file is durable.
    private func synchronizeFolder() throws {
        let folder = open(url.deletingLastPathComponent().path, O_RDONLY)
        guard folder >= 0 else { throw POSIXError(.EIO) }
        defer { close(folder) }
        guard fsync(folder) == 0 else { throw POSIXError(.EIO) }
    }
}
