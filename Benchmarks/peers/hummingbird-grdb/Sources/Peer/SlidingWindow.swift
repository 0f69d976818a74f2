// A sliding window log per driver, in the process.

import Dispatch
import Synchronization

final class SlidingWindow: Sendable {
    private let limit: Int
    private let nanoseconds: UInt64
    private let shards = (0..<16).map { _ in Shard() }

    private final class Shard: Sendable {
        fileprivate let windows = Mutex<[String: Window]>([:])
    }

    /// The times of admitted events, oldest first. The times before index `first` have left the window.
    fileprivate struct Window {
        var charges: [UInt64] = []
        var first = 0
    }

    init(limit: Int, seconds: Double) {
        self.limit = limit
        nanoseconds = UInt64(seconds * 1_000_000_000)
    }

    func admits(_ driver: String) -> Bool {
        if limit == 0 { return true }
        let now = DispatchTime.now().uptimeNanoseconds
        return shards[Int(UInt(bitPattern: driver.hashValue) % 16)].windows.withLock { windows in
            windows[driver, default: Window()].charge(at: now, limit: limit, nanoseconds: nanoseconds)
        }
    }
}

extension SlidingWindow.Window {
    fileprivate mutating func charge(at now: UInt64, limit: Int, nanoseconds: UInt64) -> Bool {
        while first < charges.count, charges[first] + nanoseconds <= now { first += 1 }
        if first > 64, first * 2 > charges.count {
            charges.removeFirst(first)
            first = 0
        }
        guard charges.count - first < limit else { return false }
        charges.append(now)
        return true
    }
}
