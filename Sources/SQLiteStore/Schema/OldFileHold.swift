// Keeps the old file of a rebuild locked for some seconds after the new file has taken its place. Another process may
// have opened the old file before that, and may still wait for a lock on it.
//
// If that process got the lock, it would write to the old file, with a WAL of the same name as the new file's. Instead,
// it gives up after `DatabaseOpening.busyTimeoutSeconds`. The old file is closed a little later.

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

    /// Waits until no old file is locked. A process must call this before it ends, because its end would release the
    /// locks too early.
    package static func wait() {
        holds.wait()
    }
}
