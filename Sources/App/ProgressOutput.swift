// Shows how far a run is, on standard error: a bar that is drawn over at a terminal, else a line each tenth.

import Foundation
import Simulation
import Synchronization

final class ProgressOutput: Sendable {
    private let isTerminal = isatty(STDERR_FILENO) == 1
    private let shownTenths = Mutex(0)
    private let unit: String

    init(unit: String = "events") {
        self.unit = unit
    }

    func show(_ progress: DeliveryProgress) {
        if isTerminal {
            // Back to the first column, and clear what a longer line left.
            writeToStandardError("\r\(ProgressDisplay.bar(progress, unit: unit))\u{1B}[K")
            return
        }
        let tenths = ProgressDisplay.percent(progress) / 10
        let isNew = shownTenths.withLock { shown in
            defer { shown = max(shown, tenths) }
            return tenths > shown
        }
        if isNew { writeToStandardError("\(ProgressDisplay.line(progress, unit: unit))\n") }
    }

    /// Whatever is written next begins a line.
    func end() {
        if isTerminal { writeToStandardError("\n") }
    }
}
