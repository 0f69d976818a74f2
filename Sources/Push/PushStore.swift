// The protocol of the outbox of push notifications, and its values. The store reports the changes of journeys;
// PushRules decides which notifications are sent.

package import Engine
package import Identity
package import JourneyModel

package protocol PushStore: Sendable {
    /// Returns the position up to which events were considered for notifications. Positions ascend in the order in
    /// which events become visible. The first call for a database stores and returns the newest position, so that older
    /// events cause no notification.
    func pushPosition(at now: Moment) async throws(StoreFailure) -> Int64

    /// Returns the changes by events after position `id`, only for drivers who have a device and are not simulated.
    /// `since` must be `PushRules.ageMillisecondsMax` ago. Changes by events that were received before `since` may be
    /// missing.
    ///
    /// Returns only the changes that the driver's stream shows too. A late event that changes only the verdicts of
    /// other events causes no such change.
    ///
    /// A store that refolds in several transactions stores a late event's change only after the whole refold. Until
    /// then, this method holds back the changes by that event and by events after it. The wait is at most half of
    /// `PushRules.ageMillisecondsMax`.
    func pushChanges(after id: Int64, since: Moment) async throws(StoreFailure) -> PushChanges

    /// Adds the entries to the outbox and stores the position `last`, in one transaction. Returns false and does
    /// nothing if another server has already stored a position higher than `base`.
    func queue(
        _ entries: [PushEntry], after base: Int64, upTo last: Int64, at now: Moment
    ) async throws(StoreFailure) -> Bool

    /// Reserves and returns at most `limit` due entries. Each device has at most one of them: the entry that was queued
    /// first. Until `lease`, no other call on any server returns these entries.
    func takeDuePushes(at now: Moment, limit: Int, lease: Moment) async throws(StoreFailure) -> [DuePush]

    /// Records the outcomes of entries that `takeDuePushes` has returned, in one transaction.
    func finish(_ results: [PushResult], at now: Moment) async throws(StoreFailure)
}

package struct PushChanges: Sendable {
    /// The position after which the next read continues.
    package var last: Int64
    package var hasMore: Bool
    package var changes: [PushChange]

    package init(last: Int64, hasMore: Bool, changes: [PushChange]) {
        (self.last, self.hasMore, self.changes) = (last, hasMore, changes)
    }
}

/// One change of a driver's journey. Numbers of drivers and devices are row numbers of the store.
package struct PushChange: Sendable {
    /// The part of a journey that notifications depend on.
    package struct Phase: Hashable, Sendable {
        package var state: JourneyState
        package var session: SessionReference?
        package var graceDeadline: Moment?
        package var hardDeadline: Moment?
        package var endedBy: Journey.Ending?

        package init(
            state: JourneyState = .idle, session: SessionReference? = nil, graceDeadline: Moment? = nil,
            hardDeadline: Moment? = nil, endedBy: Journey.Ending? = nil
        ) {
            self.state = state
            self.session = session
            self.graceDeadline = graceDeadline
            self.hardDeadline = hardDeadline
            self.endedBy = endedBy
        }

        /// The deadline that passes next.
        package var nextDeadline: Moment? { [graceDeadline, hardDeadline].compactMap { $0 }.min() }
    }

    package var driver: Int64
    /// The journey before the change. Nil (unknown) for the driver's first change. Also nil if a refold by new rules or
    /// corrected settings has deleted the earlier changes.
    package var before: Phase?
    package var after: Phase
    /// When the event that caused the change happened, corrected to the server's clock.
    package var occurredAt: Moment
    /// Whether the server itself stored the event.
    package var isByServer: Bool
    package var devices: [PushTarget]

    package init(
        driver: Int64, before: Phase?, after: Phase, occurredAt: Moment, isByServer: Bool, devices: [PushTarget]
    ) {
        self.driver = driver
        self.before = before
        self.after = after
        self.occurredAt = occurredAt
        self.isByServer = isByServer
        self.devices = devices
    }
}

/// A device of a driver.
package struct PushTarget: Hashable, Sendable {
    package var device: Int64
    /// `ios`, `android`, or another word that the app sent.
    package var platform: String
    package var hasLiveActivity: Bool
    package var preferences: NotificationPreferences

    package init(device: Int64, platform: String, hasLiveActivity: Bool, preferences: NotificationPreferences) {
        self.device = device
        self.platform = platform
        self.hasLiveActivity = hasLiveActivity
        self.preferences = preferences
    }
}

/// One entry of the outbox: a notification to one device. The text and the token are not part of it; they are read when
/// the notification is sent.
package struct PushEntry: Hashable, Sendable {
    package var driver: Int64
    package var device: Int64
    package var session: SessionReference?
    package var kind: PushKind
    package var state: JourneyState
    package var endedBy: Journey.Ending?
    /// The deadline that the notification announces.
    package var deadline: Moment?
    package var dueAt: Moment
    /// The time after which the notification is no longer sent.
    package var expiresAt: Moment

    package init(
        driver: Int64, device: Int64, session: SessionReference?, kind: PushKind, state: JourneyState,
        endedBy: Journey.Ending?,
        deadline: Moment?, dueAt: Moment, expiresAt: Moment
    ) {
        self.driver = driver
        self.device = device
        self.session = session
        self.kind = kind
        self.state = state
        self.endedBy = endedBy
        self.deadline = deadline
        self.dueAt = dueAt
        self.expiresAt = expiresAt
    }
}

/// An entry that is due, with the current registration of its device.
package struct DuePush: Sendable {
    package var id: Int64
    package var entry: PushEntry
    package var sessionID: String?
    package var device: Device
    /// The number of earlier attempts.
    package var attemptCount: Int
    /// Whether the driver is still in the entry's session, and the grace period still ends at the entry's deadline.
    /// Only entries of the kind `graceEnding` depend on this value.
    package var isDeadlineRunning: Bool
    /// Whether the driver is now in another session than the entry's. The device's Live Activity then shows that other
    /// session.
    package var isInOtherSession: Bool

    package init(
        id: Int64, entry: PushEntry, sessionID: String?, device: Device, attemptCount: Int, isDeadlineRunning: Bool,
        isInOtherSession: Bool
    ) {
        self.id = id
        self.entry = entry
        self.sessionID = sessionID
        self.device = device
        self.attemptCount = attemptCount
        self.isDeadlineRunning = isDeadlineRunning
        self.isInOtherSession = isInOtherSession
    }
}

/// The outcome of an entry that `PushStore.takeDuePushes` has returned.
package struct PushResult: Hashable, Sendable {
    package enum Change: Hashable, Sendable {
        case remove
        case retry(at: Moment)
        /// The entry was not sent. Makes it due again, and does not count this attempt.
        case putBack
        /// Removes the entry, and the device if it registered before this time.
        case removeDevice(registeredBefore: Moment)
        /// Removes the entry, and this update token from its device.
        case removeLiveActivity(token: String)
    }

    package var id: Int64
    package var device: Int64
    package var change: Change

    package init(id: Int64, device: Int64, change: Change) {
        (self.id, self.device, self.change) = (id, device, change)
    }
}
