// Keeps the old file of a rebuild locked for some seconds after the new file has taken its place. Another process may
// have opened the old file before, and may be waiting for the lock. If it got the lock, it would write to the old file,
// and to a WAL with the name of the new file's WAL. Such a process gives up after `DatabaseOpening.busyTimeoutSeconds`.

import Dispatch
import GRDB

package enum OldFileHold {
    private static let holds = DispatchGroup()

    static func close(_ old: DatabaseQueue, afterSeconds seconds: Double) {
        guard seconds > 0 else {
            try? old.close()
            return
        }
        holds.enter()
        DispatchQueue.global().asyncAfter(deadline: .now() + seconds) {
            try? old.close()
            holds.leave()
        }
    }

    /// Waits until no old file is locked. If the process ended earlier, its locks would be released too early.
    package static func wait() {
        holds.wait()
    }
}
