// Copies the WAL into the database file, on a connection of its own, while the writer goes on. SQLite's way is that the
// commit which meets a long WAL copies it, while everybody waits: of all waits for an answer that was the longest.
//
// Only a WAL that is copied to its end is begun anew (https://www.sqlite.org/wal.html), and a writer that is never idle
// always adds some more. So it is copied again and again, each time less; what is left then, the writer copies itself.

internal import CSQLiteVFS
internal import Dispatch
internal import GRDB
internal import GRDBSQLite
internal import Synchronization

final class Checkpointer: Sendable {
    /// When, and how much of the disk's time. In pages of 4 KiB.
    struct Pace: Hashable, Sendable {
        /// In the WAL, from which on it is copied: 62 MiB. A page that was changed ten times since is copied once; and
        /// it is what a start after a crash has to read.
        var pagesMin = 16_000
        /// In the WAL, from which on haste is more than courtesy: it must not grow without end.
        var courteousUpTo = 24_000
        /// Few enough for the writer to copy while everybody waits.
        var restMax = 200
        /// After so many times the writer copies whatever is left.
        var passesMax = 8
        /// Written and synced together; then a commit that waits for the disk has its turn.
        var step: Int32 = 64
        /// Of a pause after such a step, as a multiple of what the step took.
        var pause = 1.0
        /// The same in haste, and without a pause.
        var hastyStep: Int32 = 512
    }

    private struct State: Sendable {
        /// In the WAL, after the writer's last commit.
        var pages = 0
        /// In the WAL, from which on it is copied the next time.
        var next: Int
        var isCopying = false
        var owesRest = false
        var isClosed = false
    }

    private let pace: Pace
    private let state: Mutex<State>
    private let queue: DatabaseQueue
    /// Ends a pause. A signal that nobody waited for ends the next one.
    private let pauseIsOver = DispatchSemaphore(value: 0)

    init(path: String, pace: Pace = Pace()) throws {
        self.pace = pace
        state = Mutex(State(next: pace.pagesMin))
        var configuration = Configuration()
        configuration.label = "dwell.checkpoint"
        queue = try DatabaseQueue(path: path, configuration: configuration)
        try queue.inDatabase { db in
            // Said and not left to how SQLite was compiled: a WAL that is begun anew before the file is synced is lost.
            try db.execute(sql: "PRAGMA synchronous = FULL")
            // The first read opens the WAL.
            _ = try Row.fetchOne(db, sql: "SELECT 1 FROM sqlite_schema LIMIT 1")
            try writeInSteps(db)
        }
    }

    private func writeInSteps(_ db: Database) throws {
        guard let connection = db.sqliteConnection else {
            throw SQLiteError(extendedCode: SQLITE_MISUSE, message: "the database is closed")
        }
        // Until `close()` the queue is this object's, and after that nothing is written.
        let this = Unmanaged.passUnretained(self).toOpaque()
        let code = dwell_step_writes(
            connection, pace.step,
            { this, nanoseconds in
                guard let this else { return .max }
                return Unmanaged<Checkpointer>.fromOpaque(this).takeUnretainedValue().pause(afterStepOf: nanoseconds)
            }, this)
        guard code == SQLITE_OK else { throw SQLiteError(code: code, on: connection) }
    }

    // MARK: The writer

    /// To be told after each of the writer's commits how many pages the WAL has. True: what is left to copy is little,
    /// and the writer is to do that now, before the WAL grows again.
    func logHas(pages: Int) -> Bool {
        let (isToStart, isRest) = state.withLock { state in
            // Begun anew.
            if pages < state.pages { (state.next, state.owesRest) = (pace.pagesMin, false) }
            state.pages = pages
            if state.isClosed || state.isCopying { return (false, false) }
            if state.owesRest {
                state.owesRest = false
                return (false, true)
            }
            state.isCopying = pages >= state.next
            return (state.isCopying, false)
        }
        if isToStart { queue.asyncWriteWithoutTransaction { [self] db in copy(db.sqliteConnection) } }
        return isRest
    }

    /// Somebody wants to cut the WAL, which nobody can while it is copied: stops that within a step.
    func giveWay() {
        if state.withLock(\.isCopying) { stopCopying() }
    }

    /// Stops what it is doing and closes its connection. To be called before the writer's is closed, so that the last
    /// to close is one that copies all and removes the WAL. May be called again.
    func close() {
        let wasClosed = state.withLock { state in
            defer { state.isClosed = true }
            return state.isClosed
        }
        if wasClosed { return }
        stopCopying()
        try? queue.close()
    }

    private func stopCopying() {
        queue.interrupt()
        pauseIsOver.signal()
    }

    // MARK: Copying

    private func copy(_ connection: OpaquePointer?) {
        guard let connection else { return }
        var isRestLeft = false
        for _ in 0..<pace.passesMax {
            var pages: Int32 = 0
            var copied: Int32 = 0
            let code = sqlite3_wal_checkpoint_v2(connection, nil, SQLITE_CHECKPOINT_PASSIVE, &pages, &copied)
            // A reader needs what is behind it, the disk is full, or somebody wants the lock: later again.
            isRestLeft = code == SQLITE_OK && copied == pages
            guard isRestLeft, state.withLock({ $0.pages - Int(pages) > pace.restMax && !$0.isClosed }) else { break }
        }
        state.withLock { state in
            state.isCopying = false
            state.owesRest = isRestLeft
            state.next = state.pages + pace.pagesMin / 4
        }
    }

    /// Answers how many pages the next step has.
    private func pause(afterStepOf nanoseconds: UInt64) -> Int32 {
        let isCourteous = state.withLock { $0.pages < pace.courteousUpTo && !$0.isClosed }
        guard isCourteous else { return pace.hastyStep }
        _ = pauseIsOver.wait(timeout: .now() + Double(nanoseconds) / 1e9 * pace.pause)
        return pace.step
    }
}
