// Corrects the times of a phone's events for the error of the phone's clock (contract, section 3, "Clocks"). The
// correction depends only on the times of one event and on the driver's `ClockMemory`.

/// The rule that determined how an event's time was converted to the server's clock.
public enum ClockRule: String, Hashable, Sendable, CaseIterable {
    /// The event has no send time.
    case noSendTime = "no_send_time"
    /// The send time differs from the receive time by at most five minutes. For a service's event, any difference is
    /// allowed.
    case rightClock = "right_clock"
    /// The correction is the skew: the receive time minus the send time `X-Sent-At`. The phone sets this header anew at
    /// each attempt, so the skew shows the error of the clock.
    case sentAt = "sent_at"
    /// The skew is within a minute of the last correction for the driver's phone. That correction is used again.
    case knownCorrection = "known_correction"
    /// The correction is the skew computed from `timestamp`. This rule applies if nothing was known yet about the
    /// phone's clock and `timestamp` is more than a minute later than `occurred_at`. This difference shows that
    /// `timestamp` was set when the event was sent, not when it happened.
    case firstEvents = "first_events"
    /// This event's skew agrees with a remembered skew (`ClockMemory.agreed`), so the clock has an error. The
    /// correction is the smaller of the two skews. Both are computed from `timestamp`.
    case recentEventsAgree = "recent_events_agree"
    /// The skew computed from `timestamp` is not used, because no other event confirms it. The `timestamp` may come
    /// from an earlier attempt, because a retry repeats the body.
    ///
    /// The correction is the largest one known from earlier events that does not exceed the skew, or 0 if there is
    /// none.
    case loneTimestamp = "lone_timestamp"
    /// The corrected time would be more than five minutes after the receive time, so the receive time is used.
    case aheadOfReceipt = "ahead_of_receipt"
}

/// The result of correcting one event's `occurred_at` for the error of the sender's clock.
public struct ClockCorrection: Hashable, Sendable {
    /// `occurred_at` converted to the server's clock. Events are ordered by this time.
    public var corrected: Moment
    /// The receive time minus the send time. The skew is the time by which the clock is behind, plus the network delay.
    /// It is 0 if the event has no send time.
    public var skewMilliseconds: Int64
    /// Milliseconds added to `occurred_at`: 0, the skew of this event, or a correction known from earlier events. If
    /// `rule` is `aheadOfReceipt`, `corrected` is the receive time and not this sum.
    public var correctionMilliseconds: Int64
    public var rule: ClockRule
    /// The memory after this event. The store keeps it for the driver's next event.
    public var memory: ClockMemory

    /// A skew of at most this size is not corrected. Exception: if the skew is within `reuseMilliseconds` of the last
    /// correction, that correction is used again (`knownCorrection`).
    public static let toleranceMilliseconds: Int64 = 5 * 60 * 1000
    /// Two skews that differ by at most this time are taken as the same error of a clock. Their difference is assumed
    /// to be network delay.
    public static let reuseMilliseconds: Int64 = 60 * 1000

    /// Returns the clock correction for an event of a service. A service's clock counts as right, so only the rule
    /// `ahead_of_receipt` can change the event's time. `memory` does not change, because it describes the driver's
    /// phone.
    public static func ofService(
        occurredAt: Moment, sentAt: Moment?, receivedAt: Moment, memory: ClockMemory
    ) -> ClockCorrection {
        var clock = ClockCorrection(occurredAt: occurredAt, sentAt: nil, receivedAt: receivedAt, memory: memory)
        guard let sentAt else { return clock }
        clock.skewMilliseconds = receivedAt.milliseconds(since: sentAt)
        if clock.rule == .noSendTime { clock.rule = .rightClock }
        return clock
    }

    /// - Parameters:
    ///   - sentAt: `X-Sent-At`, measured by the same clock as `occurredAt`.
    ///   - timestamp: `timestamp` of the body; used only if `sentAt` is nil. If both are nil, the clock is not
    ///     corrected.
    ///   - memory: the `memory` after the driver's previous event, in order of arrival.
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
