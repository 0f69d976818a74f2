// How much of a limit on one-time codes is used up, and whether this is enough to raise an alarm.

/// A limit on the number of sent codes, and how much of it was used in the last hour.
package struct CodeSendUse: Hashable, Sendable {
    package enum Limit: String, Hashable, Sendable, CaseIterable {
        /// OTP_SENDS_TOTAL
        case total
        /// The part of OTP_SENDS_TOTAL that is available to phone numbers without an account.
        case newcomers
        /// OTP_SENDS_PER_PREFIX. `count` is the number of codes sent to phone numbers that have the same first six
        /// digits and no account.
        ///
        /// In a `CodeIssue`, the six digits are those of the request's phone number. In the result of `codeSendUses`,
        /// they are the six digits whose phone numbers got the most codes.
        case prefix
    }

    package var limit: Limit
    package var count: Int
    /// The limit itself; 0 means no limit.
    package var max: Int

    package init(_ limit: Limit, count: Int, max: Int) {
        self.limit = limit
        self.count = count
        self.max = max
    }

    /// Whether an alarm is raised, because at most a fifth of the limit is left.
    package var isNearLimit: Bool { max > 0 && count * 5 >= max * 4 }
}
