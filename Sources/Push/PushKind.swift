// The kinds of entries in the outbox of notifications.

package import Identity

package enum PushKind: Hashable, Sendable, CaseIterable {
    case alert(AlertKind)
    /// Wakes the app without showing anything, so that the app posts the events in its queue.
    case wake
    case activityUpdate
    case activityEnd

    package static let allCases: [PushKind] =
        AlertKind.allCases.map(PushKind.alert) + [.wake, .activityUpdate, .activityEnd]

    /// The word in the database, in payloads and in metrics.
    package var word: String {
        switch self {
        case .alert(let kind): kind.rawValue
        case .wake: "wake"
        case .activityUpdate: "activity_update"
        case .activityEnd: "activity_end"
        }
    }

    package init?(word: String) {
        guard let kind = Self.allCases.first(where: { $0.word == word }) else { return nil }
        self = kind
    }
}
