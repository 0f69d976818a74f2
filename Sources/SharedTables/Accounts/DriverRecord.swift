// A driver as `dwell driver find` shows it, and the protocol for finding drivers.

package import Engine
package import Identity
package import JourneyModel

package protocol DriverSearch: Sendable {
    /// Returns all matching drivers. The driver that was first seen earliest comes first.
    func find(_ question: DriverQuery) async throws(StoreFailure) -> [DriverRecord]
}

package enum DriverQuery: Hashable, Sendable {
    case id(DriverID)
    case phone(PhoneNumber)
    /// An email address. The case of ASCII letters does not matter.
    case email(String)
}

package struct DriverRecord: Hashable, Sendable {
    package var id: DriverID
    package var createdAt: Moment
    package var name: String?
    package var email: String?
    /// Email address of the Apple ID, which may differ from the address in the profile.
    package var appleEmail: String?
    package var phone: String?
    /// Nil for a driver of another service, who has no account here.
    package var role: String?
    package var signInSessions: Int
    package var lastUsedAt: Moment?
    package var devices: Int
    package var state: JourneyState
    package var events: Int
    package var lastReceivedAt: Moment?

    package init(
        id: DriverID, createdAt: Moment, name: String?, email: String?, appleEmail: String?, phone: String?,
        role: String?, signInSessions: Int, lastUsedAt: Moment?, devices: Int, state: JourneyState, events: Int,
        lastReceivedAt: Moment?
    ) {
        (self.id, self.createdAt, self.name, self.email) = (id, createdAt, name, email)
        (self.appleEmail, self.phone, self.role) = (appleEmail, phone, role)
        (self.signInSessions, self.lastUsedAt, self.devices) = (signInSessions, lastUsedAt, devices)
        (self.state, self.events, self.lastReceivedAt) = (state, events, lastReceivedAt)
    }
}
