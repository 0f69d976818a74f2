// Shows the progress of a long operation on standard error. At a terminal, it redraws a bar. Otherwise it writes one
// line for each tenth of the operation.

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
            // `\r` moves to the first column. `ESC[K` clears the rest of the line, because the previous bar may have
            // been longer.
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

    /// Ends the line of the bar, so that later output begins on a new line.
    func end() {
        if isTerminal { writeToStandardError("\n") }
    }
}
