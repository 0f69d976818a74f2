// Corrects a phone's clock against the server's (contract, section 3, "Clocks"). Pure: takes the times of one event
// and what is remembered of the driver's clocks, and returns the corrected time; the store keeps the memory.

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
    /// `timestamp` shows how far the clock is off, was made at sending, and nothing is known of the driver's clocks
    /// yet.
    case firstEvents = "first_events"
    /// `timestamp` shows how far the clock is off, and recent events of the driver agree.
    case recentEventsAgree = "recent_events_agree"
    /// Only this event's `timestamp` says that the clock is off: it is treated as the timestamp of an earlier
    /// attempt.
    case loneTimestamp = "lone_timestamp"
    /// After any correction the event is still more than five minutes ahead: it is placed at its receive time.
    case aheadOfReceipt = "ahead_of_receipt"
}

/// How one event's `occurred_at` is corrected, from the times that came with it.
public struct ClockCorrection: Hashable, Sendable {
    /// `occurred_at` on the server's clock; the time by which events are ordered.
    public var corrected: Moment
    /// Receive time minus send time as measured, network delay included: negative for a clock that is ahead.
    /// 0 when the event has no send time.
    public var skewMilliseconds: Int64
    /// Milliseconds added to `occurred_at`: 0, the skew, or a correction known before.
    public var correctionMilliseconds: Int64
    public var rule: ClockRule
    /// To be stored for the driver's next event.
    public var memory: ClockMemory

    /// Clocks that differ by at most this are not corrected.
    public static let toleranceMilliseconds: Int64 = 5 * 60 * 1000
    /// Skews within this distance belong to one clock and differ by network delay only.
    public static let reuseMilliseconds: Int64 = 60 * 1000

    /// - Parameters:
    ///   - sentAt: `X-Sent-At`, by the clock that `occurredAt` was read from.
    ///   - timestamp: `timestamp` of the body; used only without `sentAt`. Without both nothing is corrected.
    ///   - memory: `memory` of the driver's event that arrived before this one.
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
