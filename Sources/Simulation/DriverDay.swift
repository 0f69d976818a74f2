// All drives of one simulated driver, one after the other, and their times.

package import JourneyModel

/// The drives that a seed generates for one driver.
package struct DriverDay: Hashable, Sendable {
    package var seed: UInt64
    package var drives: [Drive]

    /// Generates the drives. The same arguments give the same drives as long as the files that generate drives are
    /// unchanged.
    ///
    /// - Parameter scenarios: the scenarios to play, each at most once.
    package init(seed: UInt64, scenarios: [Scenario], settings: Settings) {
        self.seed = seed
        var previousSession: String?
        drives = scenarios.filter(\.isDrive).map { scenario in
            // Each scenario has its own seed, so a drive stays nearly the same if another is left out. Only two things
            // depend on the drive before it: the session that a reset names, and the first state that a shipped client
            // reports.
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

    /// How many times events are sent that the server must accept. Each copy counts, and so does the final delivery of
    /// each event.
    package var deliveredCount: Int {
        drives.reduce(eventCount) { sum, drive in
            sum + drive.deliveries.reduce(0) { $0 + ($1.form == .changed ? 0 : $1.events.count) }
        }
    }

    /// Returns the drives with their start times. The last drive ends at `now`.
    func scheduled(endingAt now: Moment) -> [(drive: Drive, startsAt: Moment)] {
        var start = now.advanced(byMilliseconds: -durationMilliseconds)
        return drives.map { drive in
            defer { start = start.advanced(byMilliseconds: drive.durationMilliseconds) }
            return (drive, start)
        }
    }
}
