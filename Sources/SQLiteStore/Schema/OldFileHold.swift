// After a rebuild has replaced the old file, keeps the old file locked for some seconds. A process that opened the old
// file before the replacement may still be waiting for a lock on it.
//
// If such a process got the lock, it would write to the old file, with a WAL of the same name as the new file's WAL. To
// prevent this, the old file stays locked a little longer than `DatabaseOpening.busyTimeoutSeconds`. The process gives
// up after that time.

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
