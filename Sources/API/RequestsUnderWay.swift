// Limits how many reads, or how many batches, a driver has under way at the same time.
//
// The rate limit is not enough, because it charges a request fully only when the work is done. If a driver sends a
// minute's requests at once, the rate limit admits all of them. Without RequestsUnderWay, these requests would delay
// other drivers' requests to the database.

import JourneyModel
import Synchronization

final class RequestsUnderWay: Sendable {
    /// The maximum number of requests under way for each driver. A driver's apps never send so many at once. This many
    /// batches of the maximum size delay other drivers by about a second.
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
