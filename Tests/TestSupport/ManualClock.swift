// A clock that only a test moves.

package import JourneyModel
import Synchronization

package final class ManualClock: Sendable {
    private let moment: Mutex<Moment>

    /// Starts at 2026-11-16T20:00:00Z by default.
    package init(at start: Moment = .sample) {
        moment = Mutex(start)
    }

    package var now: Moment { moment.withLock { $0 } }

    package func advance(bySeconds seconds: Int) {
        moment.withLock { $0 = $0.advanced(bySeconds: seconds) }
    }

    package func advance(byMilliseconds milliseconds: Int64) {
        moment.withLock { $0 = $0.advanced(byMilliseconds: milliseconds) }
    }
}

extension Moment {
    /// 2026-11-16T20:00:00Z, the `now` of the scripted journeys.
    package static let sample = Moment(millisecondsSinceEpoch: 1_794_859_200_000)
}
