// A phone's clock against the server's (contract, section 3, "Clocks"). Pure: the times of one event and what is
// remembered of the driver's clocks go in, the corrected time comes out; who remembers is the store.

/// Which rule decided where an event is on the server's clock.
public enum ClockRule: String, Hashable, Sendable, CaseIterable {
    /// Nothing said when the event was sent.
    case noSendTime = "no_send_time"
    /// Send and receive time differ by at most five minutes.
    case rightClock = "right_clock"
    /// `X-Sent-At`, made for this attempt, says how far the clock is off.
    case sentAt = "sent_at"
    /// The skew is within a minute of the driver's last correction.
    case knownCorrection = "known_correction"
    /// `timestamp` says how far the clock is off, was made to send, and nothing is known of the driver's clocks yet.
    case firstEvents = "first_events"
    /// `timestamp` says how far the clock is off, and so did recent events of the driver.
    case recentEventsAgree = "recent_events_agree"
    /// Only this event's `timestamp` says that the clock is off: taken for an earlier attempt's.
    case loneTimestamp = "lone_timestamp"
    /// After any correction the event is more than five minutes ahead: it counts as received.
    case aheadOfReceipt = "ahead_of_receipt"
}

/// What the times of one event make of its `occurred_at`.
public struct ClockCorrection: Hashable, Sendable {
    /// `occurred_at` on the server's clock; the time by which events are ordered.
    public var corrected: Moment
    /// Receive time minus send time as measured, network delay included: negative for a clock that is ahead.
    /// 0 when the event has no send time.
    public var skewMilliseconds: Int64
    /// What was added to `occurred_at`: 0, the skew, or a correction that was known.
    public var correctionMilliseconds: Int64
    public var rule: ClockRule
    /// To be remembered for the driver's next event.
    public var memory: ClockMemory

    /// Clocks that differ by no more than this are left alone.
    public static let toleranceMilliseconds: Int64 = 5 * 60 * 1000
    /// Skews this close to each other are one clock's, told apart by network delay only.
    public static let reuseMilliseconds: Int64 = 60 * 1000

    /// - Parameters:
    ///   - sentAt: `X-Sent-At`, by the clock that `occurredAt` was read from.
    ///   - timestamp: `timestamp` of the body; counts where there is no `sentAt`. Without both nothing is corrected.
    ///   - memory: `memory` of the driver's event that arrived before.
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
