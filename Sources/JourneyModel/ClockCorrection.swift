// Corrects a phone's clock against the server's (contract, section 3, "Clocks"). Pure: takes the times of one event
// and the driver's `ClockMemory`, and returns the corrected time. The store keeps the memory between events.

/// The rule that placed an event on the server's clock.
public enum ClockRule: String, Hashable, Sendable, CaseIterable {
    /// The event has no send time.
    case noSendTime = "no_send_time"
    /// Send and receive time differ by at most five minutes.
    case rightClock = "right_clock"
    /// `X-Sent-At`, made for this attempt, shows how far the clock is off.
    case sentAt = "sent_at"
    /// The skew is within a minute of the driver's last correction.
    case knownCorrection = "known_correction"
    /// `timestamp` shows how far the clock is off. It is later than the event, so it was set at sending, and no clock
    /// of the driver is known yet.
    case firstEvents = "first_events"
    /// `timestamp` shows how far the clock is off, and recent events of the driver agree.
    case recentEventsAgree = "recent_events_agree"
    /// Only this event's `timestamp` shows that the clock is off. It is taken for the `timestamp` of an earlier
    /// attempt.
    case loneTimestamp = "lone_timestamp"
    /// Even with the correction, the event would lie more than five minutes after its receive time. It gets the
    /// receive time instead.
    case aheadOfReceipt = "ahead_of_receipt"
}

/// The correction of one event's `occurred_at`, computed from the times sent with the event.
public struct ClockCorrection: Hashable, Sendable {
    /// `occurred_at` on the server's clock; the time by which events are ordered.
    public var corrected: Moment
    /// Receive time minus send time as measured, network delay included: negative for a clock that is ahead.
    /// 0 when the event has no send time.
    public var skewMilliseconds: Int64
    /// Milliseconds added to `occurred_at`: 0, the skew, or a correction known before.
    public var correctionMilliseconds: Int64
    public var rule: ClockRule
    /// The memory after this event, to be stored for the driver's next event.
    public var memory: ClockMemory

    /// Clocks that differ by at most this are not corrected.
    public static let toleranceMilliseconds: Int64 = 5 * 60 * 1000
    /// Two skews that differ by at most this are taken for one clock; the difference is network delay.
    public static let reuseMilliseconds: Int64 = 60 * 1000

    /// - Parameters:
    ///   - sentAt: `X-Sent-At`, by the clock that `occurredAt` was read from.
    ///   - timestamp: `timestamp` of the body; used only if `sentAt` is nil. If both are nil, the clock is not
    ///     corrected.
    ///   - memory: the `memory` that resulted from the driver's previous event, in order of arrival.
    public init(
        occurredAt: Moment, sentAt: Moment?, timestamp: Moment? = nil, receivedAt: Moment, memory: ClockMemory
    ) {
        self.memory = memory
        if let sendTime = sentAt ?? timestamp {
            skewMilliseconds = receivedAt.milliseconds(since: sendTime)
            (correctionMilliseconds, rule) = self.memory.correction(
                forSkew: skewMilliseconds, isOfThisAttempt: sentAt != nil,
                sentAfterMilliseconds: sendTime.milliseconds(since: occurredAt), receivedAt: receivedAt)
        } else {
            (skewMilliseconds, correctionMilliseconds, rule) = (0, 0, .noSendTime)
        }
        corrected = occurredAt.advanced(byMilliseconds: correctionMilliseconds)
        if corrected.milliseconds(since: receivedAt) > Self.toleranceMilliseconds {
            corrected = receivedAt
            rule = .aheadOfReceipt
        }
    }
}
