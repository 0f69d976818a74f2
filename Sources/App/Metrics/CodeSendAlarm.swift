// Logs a warning when a limit on one-time codes is nearly reached, for example during an attack. The operator should
// know, because each code costs money, and new users get no codes after the limit is reached.

import Engine
import Identity
import JourneyModel
import Logging
import StructuredLogging
import Synchronization

final class CodeSendAlarm: Sendable {
    /// The minimum milliseconds between two warnings about the same limit.
    static let pauseMilliseconds: Int64 = 600_000

    private let logger: Logger
    private let clock: @Sendable () -> Moment
    private let pauses = Mutex<[CodeSendUse.Limit: Pause]>([:])

    init(logger: Logger, clock: @escaping @Sendable () -> Moment) {
        self.logger = logger
        self.clock = clock
    }

    func warn(of use: CodeSendUse) {
        let isDue = pauses.withLock { pauses in
            // Read the clock inside the lock. A time that was read before the lock may be earlier than the stored time,
            // as if the clock had been set back.
            let now = clock()
            guard pauses[use.limit]?.isOver(at: now) ?? true else { return false }
            pauses[use.limit] = Pause(from: now, milliseconds: Self.pauseMilliseconds)
            return true
        }
        guard isDue else { return }
        logger.warning(
            "hourly limit on one-time codes almost reached",
            metadata: ["limit": "\(use.limit.rawValue)", "sent": .number(use.count), "max": .number(use.max)])
    }
}
