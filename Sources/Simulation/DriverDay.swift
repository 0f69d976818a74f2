// All drives of one simulated driver, one after the other, and when they were.

package import JourneyModel

/// What a seed makes of one driver.
package struct DriverDay: Hashable, Sendable {
    package var seed: UInt64
    package var drives: [Drive]

    /// A function of its arguments: the same for as long as DriveScript.swift stays as it is.
    ///
    /// - Parameter scenarios: each at most once.
    package init(seed: UInt64, scenarios: [Scenario], settings: Settings) {
        self.seed = seed
        var previousSession: String?
        drives = scenarios.map { scenario in
            // By scenario, so that leaving some out changes nothing about the others but whose session they reset.
            let place = UInt64(Scenario.allCases.firstIndex(of: scenario) ?? 0)
            let drive = DriveScript.drive(
                scenario, seed: seed &* 0x1_0000 &+ place, settings: settings, previousSession: previousSession)
            previousSession = drive.sessionID
            return drive
        }
    }

    package var durationMilliseconds: Int64 {
        drives.reduce(0) { $0 + $1.durationMilliseconds }
    }

    package var eventCount: Int { drives.reduce(0) { $0 + $1.events.count } }

    /// Events that are sent, copies included, the final delivery of every event too.
    package var deliveredCount: Int {
        drives.reduce(eventCount) { sum, drive in sum + drive.deliveries.reduce(0) { $0 + $1.events.count } }
    }

    /// The drives with the moments at which they begin, so that the last one is over at `now`.
    func scheduled(endingAt now: Moment) -> [(drive: Drive, startsAt: Moment)] {
        var start = now.advanced(byMilliseconds: -durationMilliseconds)
        return drives.map { drive in
            defer { start = start.advanced(byMilliseconds: drive.durationMilliseconds) }
            return (drive, start)
        }
    }
}
