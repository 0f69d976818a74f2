// All drives of one simulated driver, with their times.

package import JourneyModel

/// The drives that a seed generates for one driver.
package struct DriverDay: Hashable, Sendable {
    package var seed: UInt64
    package var drives: [Drive]

    /// Generates the drives. The same arguments give the same drives, unless the code that generates drives changes.
    ///
    /// - Parameter scenarios: the scenarios to play, each at most once.
    package init(seed: UInt64, scenarios: [Scenario], settings: Settings) {
        self.seed = seed
        var previousSession: String?
        drives = scenarios.filter(\.isDrive).map { scenario in
            // Each scenario has its own seed, so that a drive hardly changes if another scenario is left out. It
            // depends on the previous drive only in the session that a reset event names, and in the first state of a
            // shipped client.
            let index = UInt64(Scenario.allCases.firstIndex(of: scenario) ?? 0)
            let drive = DriveScript.drive(
                scenario, seed: seed &* 0x1_0000 &+ index, settings: settings, previousSession: previousSession)
            previousSession = drive.sessionID
            return drive
        }
    }

    package var durationMilliseconds: Int64 {
        drives.reduce(0) { $0 + $1.durationMilliseconds }
    }

    package var eventCount: Int { drives.reduce(0) { $0 + $1.events.count } }

    /// The number of times that the server must accept an event. It includes copies, and the final delivery of each
    /// event.
    package var deliveredCount: Int {
        drives.reduce(eventCount) { sum, drive in
            sum + drive.deliveries.reduce(0) { $0 + ($1.form == .changed ? 0 : $1.events.count) }
        }
    }

    func scheduled(endingAt now: Moment) -> [(drive: Drive, startsAt: Moment)] {
        var start = now.advanced(byMilliseconds: -durationMilliseconds)
        return drives.map { drive in
            defer { start = start.advanced(byMilliseconds: drive.durationMilliseconds) }
            return (drive, start)
        }
    }
}
