// All drives of one simulated driver, in sequence, and their times.

package import JourneyModel

/// The drives that a seed generates for one driver.
package struct DriverDay: Hashable, Sendable {
    package var seed: UInt64
    package var drives: [Drive]

    /// A function of its arguments: the same while DriveScript.swift is unchanged.
    ///
    /// - Parameter scenarios: each at most once.
    package init(seed: UInt64, scenarios: [Scenario], settings: Settings) {
        self.seed = seed
        var previousSession: String?
        drives = scenarios.filter(\.isDrive).map { scenario in
            // Seeded by scenario, so that leaving some out changes nothing about the others except which session
            // they reset.
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

    /// Events sent to be stored, including copies and the final delivery of every event.
    package var deliveredCount: Int {
        drives.reduce(eventCount) { sum, drive in
            sum + drive.deliveries.reduce(0) { $0 + ($1.form == .changed ? 0 : $1.events.count) }
        }
    }

    /// The drives with their start times, such that the last one is over at `now`.
    func scheduled(endingAt now: Moment) -> [(drive: Drive, startsAt: Moment)] {
        var start = now.advanced(byMilliseconds: -durationMilliseconds)
        return drives.map { drive in
            defer { start = start.advanced(byMilliseconds: drive.durationMilliseconds) }
            return (drive, start)
        }
    }
}
