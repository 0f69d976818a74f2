// Corrects a phone's clock by comparing it with the server's clock (contract, section 3, "Clocks"). The correction is a
// pure function of the times of one event and the driver's `ClockMemory`. The store keeps the `ClockMemory` between
// events.

/// The rule by which an event's time on the server's clock was determined.
public enum ClockRule: String, Hashable, Sendable, CaseIterable {
    /// The event has no send time.
    case noSendTime = "no_send_time"
    /// The send time and the receive time differ by at most five minutes, or the sender is a service.
    case rightClock = "right_clock"
    /// `X-Sent-At` shows the error of the clock. The phone sets this header to the present time at each attempt.
    case sentAt = "sent_at"
    /// The skew differs by at most a minute from the last correction of the driver's phone. That last correction is
    /// used again.
    case knownCorrection = "known_correction"
    /// The correction is the skew computed from `timestamp`. Nothing was known yet about the clock of the driver's
    /// phone. The `timestamp` is more than a minute later than `occurred_at`, so it was set when the event was sent.
    case firstEvents = "first_events"
    /// Two events agree that the clock has an error (`ClockMemory.agreed`). The correction is the smaller of their two
    /// skews, each computed from the `timestamp` of its event.
    case recentEventsAgree = "recent_events_agree"
    /// The skew computed from `timestamp` suggests that the clock has an error, but no other event confirms this error.
    /// The `timestamp` may come from an earlier attempt, because a retry repeats the body of the first attempt. The
    /// skew is therefore not used. The correction is one that earlier events have shown, or 0.
    case loneTimestamp = "lone_timestamp"
    /// The corrected time would be more than five minutes after the receive time. The event gets the receive time
    /// instead.
    case aheadOfReceipt = "ahead_of_receipt"
}

/// The correction of one event's `occurred_at`, computed from the times sent with the event.
public struct ClockCorrection: Hashable, Sendable {
    /// `occurred_at` converted to the server's clock. Events are ordered by this time.
    public var corrected: Moment
    /// Receive time minus send time. The network delay is part of the skew. The skew is negative for a clock that is
    /// ahead. It is 0 if the event has no send time.
    public var skewMilliseconds: Int64
    /// Milliseconds added to `occurred_at`: 0, the skew of this event, or a correction known from earlier events. If
    /// `rule` is `aheadOfReceipt`, this number is not used: `corrected` is the receive time.
    public var correctionMilliseconds: Int64
    public var rule: ClockRule
    /// The memory after this event, to be stored for the driver's next event.
    public var memory: ClockMemory

    /// A clock that differs from the server's clock by at most this time is not corrected. Exception: if the skew is
    /// close to the last correction (`reuseMilliseconds`), that correction is used again (`knownCorrection`).
    public static let toleranceMilliseconds: Int64 = 5 * 60 * 1000
    /// Two skews that differ by at most this time are assumed to come from the same clock. Their difference is assumed
    /// to be network delay.
    public static let reuseMilliseconds: Int64 = 60 * 1000

    /// Returns the clock correction for an event of a service. A service's clock counts as right, so only the rule
    /// `ahead_of_receipt` can shift the event. The event does not change `memory`, which describes the driver's phone.
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
