// Determines the charger of an event, for the rules that give some chargers other settings (contract, section 2). Every
// store uses this function, so that all stores fold an event with the same time limits.

package import JourneyModel

extension Journey {
    /// Returns the charger that determines an event's settings. This is the charger with which the event's session was
    /// registered, or else the charger that the event names. If there is neither, returns the target charger of this
    /// journey, which is the journey before the event. Returns nil instead if the event names a session other than that
    /// of this journey, because the target charger belongs to the session of this journey.
    package func settingsCharger(registered: String?, event charger: String?, sessionID: String?) -> String? {
        if let registered { return registered }
        if let charger { return charger }
        guard let sessionID, let current = self.sessionID else { return targetChargerID }
        return haveSameBytes(sessionID, current) ? targetChargerID : nil
    }
}
