// A clock that moves only when a test advances it.

package import JourneyModel
import Synchronization

package final class ManualClock: Sendable {
    private let moment: Mutex<Moment>

    /// Creates a clock that starts at 2026-11-16T20:00:00Z by default.
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
    /// 2026-11-16T20:00:00Z, the time called `now` in the scripted journeys.
    package static let sample = Moment(millisecondsSinceEpoch: 1_794_859_200_000)
}
