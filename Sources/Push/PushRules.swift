// Decides which notifications a change of a journey causes. The functions are pure: the time is a parameter.

import Identity
package import JourneyModel

package enum PushRules {
    /// The maximum age, in milliseconds, at which a change still causes notifications. The age counts from the time of
    /// the event. For the warning before the end of the grace period, it counts from the time when the warning is due.
    package static let ageMillisecondsMax: Int64 = 60_000
    /// The driver is warned this number of seconds before the grace period ends. If the grace period is shorter, the
    /// driver is warned at the start of the grace period.
    package static let warningSeconds = 180
    /// The lifetime, in seconds, of a notification without a deadline.
    package static let secondsMax = 3600
    /// The lifetime, in seconds, of the notification that ends a Live Activity. (iOS itself ends an activity after
    /// eight hours and removes it four hours later.)
    package static let activityEndSecondsMax = 4 * 3600

    /// Returns the outbox entries for the devices of the change's driver. The entries of each device are in sending
    /// order.
    package static func entries(for change: PushChange, at now: Moment) -> [PushEntry] {
        let isRecent = now.milliseconds(since: change.occurredAt) <= ageMillisecondsMax
        return change.devices.flatMap { target in
            var entries: [PushEntry] = []
            if isRecent {
                entries += alert(change, target, now)
                entries += wake(change, target, now)
                entries += activity(change, target, now)
            }
            return entries + warning(change, target, now)
        }
    }

    private static func alert(_ change: PushChange, _ target: PushTarget, _ now: Moment) -> [PushEntry] {
        guard change.isEntry else { return [] }
        let hour = now.advanced(bySeconds: secondsMax)
        switch change.after.state {
        case .sessionActive where target.preferences.allows(.sessionActive):
            return [
                change.entry(.alert(.sessionActive), target, due: now, until: change.after.hardDeadline ?? hour)
            ]
        case .atMerchant where target.preferences.allows(.atMerchant):
            return [change.entry(.alert(.atMerchant), target, due: now, until: change.after.hardDeadline ?? hour)]
        case .sessionEnded where change.isExpiry && target.preferences.allows(.sessionExpired):
            return [change.entry(.alert(.sessionExpired), target, due: now, until: hour)]
        default: return []
        }
    }

    /// Returns the entry that wakes the app after an expiry that the server stored. An app that reported the expiry
    /// itself is running, and need not be woken.
    private static func wake(_ change: PushChange, _ target: PushTarget, _ now: Moment) -> [PushEntry] {
        guard change.isEntry, change.isExpiry, change.isByServer else { return [] }
        return [change.entry(.wake, target, due: now, until: now.advanced(bySeconds: secondsMax))]
    }

    private static func activity(_ change: PushChange, _ target: PushTarget, _ now: Moment) -> [PushEntry] {
        guard target.hasLiveActivity else { return [] }
        if change.after.state.hasSessionInProgress {
            let until = change.after.nextDeadline ?? now.advanced(bySeconds: secondsMax)
            return [change.entry(.activityUpdate, target, due: now, until: until)]
        }
        guard change.endsSession else { return [] }
        return [change.entry(.activityEnd, target, due: now, until: now.advanced(bySeconds: activityEndSecondsMax))]
    }

    /// Returns the warning before the end of the grace period. The age limit applies to the time when the warning is
    /// due, not to the time of the event. A driver whose departure is reported late is therefore still warned.
    private static func warning(_ change: PushChange, _ target: PushTarget, _ now: Moment) -> [PushEntry] {
        guard change.after.state == .inTransit, let deadline = change.after.graceDeadline,
            change.before?.state != .inTransit || change.before?.session != change.after.session
                || change.before?.graceDeadline != deadline,
            target.preferences.allows(.graceEnding)
        else { return [] }
        let due = max(deadline.advanced(bySeconds: -warningSeconds), change.occurredAt)
        guard deadline > now, now.milliseconds(since: due) <= ageMillisecondsMax else { return [] }
        return [change.entry(.alert(.graceEnding), target, due: due, until: deadline, deadline: deadline)]
    }
}

extension PushChange {
    /// Whether the change enters another state or another session. True if `before` is nil (unknown).
    fileprivate var isEntry: Bool { before?.state != after.state || before?.session != after.session }

    /// Whether the change ends a session. If `before` is nil (unknown), the value is true if `after` has an ended
    /// session, even if an earlier change ended it. Ending a Live Activity twice is harmless, but an activity that is
    /// never ended stays visible for hours.
    ///
    /// If `before` is nil and `after` has no session, the value is false, because this may be the driver's first
    /// change.
    fileprivate var endsSession: Bool {
        guard !after.state.hasSessionInProgress else { return false }
        return before?.state.hasSessionInProgress ?? (after.session != nil)
    }

    /// Whether a deadline ended the session.
    fileprivate var isExpiry: Bool {
        after.state == .sessionEnded && (after.endedBy == .grace || after.endedBy == .hardTimeout)
    }

    fileprivate func entry(
        _ kind: PushKind, _ target: PushTarget, due: Moment, until: Moment, deadline: Moment? = nil
    ) -> PushEntry {
        PushEntry(
            driver: driver, device: target.device, session: after.session, kind: kind, state: after.state,
            endedBy: after.endedBy, deadline: deadline ?? after.nextDeadline, dueAt: due, expiresAt: until)
    }
}
