// Copies the WAL into the database file on a separate connection, while the writer continues. By default, SQLite copies
// a long WAL during a commit, and all requests wait for that commit. Such commits caused the longest response times.
//
// SQLite resets the WAL only after every frame is copied (https://www.sqlite.org/wal.html), but a busy writer appends
// frames during the copying. The WAL is therefore copied in several passes, each shorter than the one before. The
// writer itself copies the last frames.

internal import CSQLiteVFS
internal import Dispatch
internal import GRDB
internal import GRDBSQLite
internal import Synchronization

final class Checkpointer: Sendable {
    /// When the WAL is copied, and how much of the disk's time the copying uses. Sizes are in pages of 4 KiB.
    struct Pace: Hashable, Sendable {
        /// WAL size at which copying starts (62 MiB). A large size saves writes: a page that changes ten times before
        /// the copying is written to the database file only once. But it makes a start after a crash longer, because
        /// the server then reads the whole WAL.
        var pagesMin = 16_000
        /// Up to this WAL size, copying pauses after each step, so that commits can use the disk. With a larger WAL,
        /// copying does not pause. Otherwise the WAL could grow without end.
        var pausedUpTo = 24_000
        /// If at most this number of pages is left after a pass, the writer copies them. The number is small, because
        /// all requests wait while the writer copies.
        var restMax = 200
        /// Maximum number of passes over the WAL. After that, the writer copies the remaining frames, however many
        /// there are.
        var passesMax = 8
        /// Number of pages that one step writes and syncs. A waiting commit can use the disk after each step.
        var step: Int32 = 64
        /// Length of the pause after a step, as a multiple of the step's duration.
        var pause = 1.0
        /// Number of pages per step for a WAL larger than `pausedUpTo`.
        var unpausedStep: Int32 = 512
    }

    private struct State: Sendable {
        /// WAL size after the writer's last commit.
        var pages = 0
        /// WAL size at which copying will start next.
        var next: Int
        var isCopying = false
        var hasRemainder = false
        var isClosed = false
    }

    private let pace: Pace
    private let state: Mutex<State>
    private let queue: DatabaseQueue
    /// Signalled to end a pause early. A signal outside a pause ends the following pause.
    private let pauseIsOver = DispatchSemaphore(value: 0)

    init(path: String, pace: Pace = Pace()) throws {
        self.pace = pace
        state = Mutex(State(next: pace.pagesMin))
        var configuration = Configuration()
        configuration.label = "dwell.checkpoint"
        queue = try DatabaseQueue(path: path, configuration: configuration)
        try queue.inDatabase { db in
            // The database file must be synced before the WAL is reset. Otherwise a power cut would lose the content of
            // the WAL. SQLite's default can be changed at compile time, so FULL is set explicitly.
            try db.execute(sql: "PRAGMA synchronous = FULL")
            // The first read makes SQLite open the WAL.
            _ = try Row.fetchOne(db, sql: "SELECT 1 FROM sqlite_schema LIMIT 1")
            try writeInSteps(db)
        }
    }

    private func writeInSteps(_ db: Database) throws {
        let connection = try db.openConnection
        // SQLite uses the pointer to `self` only while the connection writes. This object owns the connection until
        // `close()`, and the connection writes nothing after that. The pointer is therefore valid during every write.
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

    /// Must be called after each of the writer's commits, with the size of the WAL in pages. Starts the copying if the
    /// WAL is long enough.
    ///
    /// Returns true if the passes are finished and the writer must copy the last frames before its next commit. Returns
    /// true only once after the passes.
    func logHas(pages: Int) -> Bool {
        let (isToStart, isRest) = state.withLock { state in
            // The WAL was reset.
            if pages < state.pages { (state.next, state.hasRemainder) = (pace.pagesMin, false) }
            state.pages = pages
            if state.isClosed || state.isCopying { return (false, false) }
            if state.hasRemainder {
                state.hasRemainder = false
                return (false, true)
            }
            state.isCopying = pages >= state.next
            return (state.isCopying, false)
        }
        if isToStart { queue.asyncWriteWithoutTransaction { [self] db in copy(db.sqliteConnection) } }
        return isRest
    }

    /// Copies most frames of the WAL. Must be called before the writer truncates the WAL, because all requests wait
    /// while the writer copies the remaining frames. Returns when few frames are left, or when the WAL cannot be copied
    /// now.
    func copyAll() async {
        await withCheckedContinuation { (continuation: CheckedContinuation<Void, Never>) in
            queue.asyncWriteWithoutTransaction { [self] db in
                if state.withLock({ state in
                    defer { state.isCopying = state.isCopying || !state.isClosed }
                    return !state.isClosed
                }) {
                    copy(db.sqliteConnection)
                }
                continuation.resume()
            }
        }
    }

    /// Stops the copying after at most one more step. Must be called before the WAL is truncated, because a WAL cannot
    /// be truncated while it is being copied.
    func yieldToWriter() {
        if state.withLock(\.isCopying) { stopCopying() }
    }

    /// Stops the copying and closes the checkpointer's connection. May be called again.
    ///
    /// Must be called before the writer's connection is closed, because SQLite copies and removes the WAL when the last
    /// connection is closed.
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
            // True if the pass copied every frame that it found. False if a reader's snapshot, a full disk, another
            // connection's lock or `stopCopying` prevented this. The copying is then tried again later.
            isRestLeft = code == SQLITE_OK && copied == pages
            guard isRestLeft, state.withLock({ $0.pages - Int(pages) > pace.restMax && !$0.isClosed }) else { break }
        }
        state.withLock { state in
            state.isCopying = false
            state.hasRemainder = isRestLeft
            state.next = state.pages + pace.pagesMin / 4
        }
    }

    /// Waits after a step, unless the WAL has grown beyond `pausedUpTo` or the checkpointer is closed. Returns the
    /// number of pages of the next step.
    private func pause(afterStepOf nanoseconds: UInt64) -> Int32 {
        let isPaused = state.withLock { $0.pages < pace.pausedUpTo && !$0.isClosed }
        guard isPaused else { return pace.unpausedStep }
        _ = pauseIsOver.wait(timeout: .now() + Double(nanoseconds) / 1e9 * pace.pause)
        return pace.step
    }
}
