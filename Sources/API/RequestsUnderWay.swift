// Limits how many requests of one kind (reads, or batches) each driver has under way.
//
// The rate limit alone is not enough, because the full charge of a request is known only when its work is done. If a
// driver sends a minute's requests at once, the rate limit admits all of them. They would delay other drivers' requests
// in the queue for the database.

import JourneyModel
import Synchronization

final class RequestsUnderWay: Sendable {
    /// The maximum number of requests under way for each driver. The apps of a driver never send this many at the same
    /// time. If all of these requests are batches of the largest size, other drivers wait for about a second.
    static let perDriverMax = 64

    /// The number of each driver's requests; a driver without requests has no entry.
    private let counts = Mutex<[DriverID: Int]>([:])

    /// Counts a request until the returned object is deallocated.
    ///
    /// - Throws: a problem if the driver has the maximum number of requests under way.
    func begin(_ driver: DriverID) throws(ProblemResponse) -> RequestUnderWay {
        let fits = counts.withLock { counts in
            let count = counts[driver] ?? 0
            guard count < Self.perDriverMax else { return false }
            counts[driver] = count + 1
            return true
        }
        guard fits else { throw .tooManyRequestsUnderWay }
        return RequestUnderWay(of: driver, in: self)
    }

    fileprivate func end(_ driver: DriverID) {
        counts.withLock { counts in
            let count = (counts[driver] ?? 0) - 1
            counts[driver] = count > 0 ? count : nil
        }
    }
}

/// A driver's request, counted as under way until this object is deallocated.
final class RequestUnderWay: Sendable {
    private let driver: DriverID
    private let requests: RequestsUnderWay

    fileprivate init(of driver: DriverID, in requests: RequestsUnderWay) {
        (self.driver, self.requests) = (driver, requests)
    }

    deinit { requests.end(driver) }
}
