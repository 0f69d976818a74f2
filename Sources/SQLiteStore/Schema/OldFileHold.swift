// Keeps the old file of a rebuild locked for some seconds after the new file has taken its place. A process that opened
// the old file before that, and waits for its lock, would otherwise write to the old file, and to a WAL with the name
// of the new file's WAL. Such a process gives up after `DatabaseOpening.busyTimeoutSeconds`.

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

    /// Waits until no old file is locked. A process that ends earlier releases the locks of its files.
    package static func wait() {
        holds.wait()
    }
}
