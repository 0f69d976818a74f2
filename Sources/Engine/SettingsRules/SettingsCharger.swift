// Determines the charger of an event, because a rule can be limited to certain chargers (contract, section 2). All
// stores use this function, so they all choose the same settings for an event.

package import JourneyModel

extension Journey {
    /// Returns the charger that determines an event's settings. `self` is the journey before the event. The result is
    /// the first of these chargers that exists:
    ///
    /// 1. the charger with which the event's session was registered
    /// 2. the charger that the event names
    /// 3. the target charger of `self`, unless the event and the journey name different sessions
    package func settingsCharger(registered: String?, event charger: String?, sessionID: String?) -> String? {
        if let registered { return registered }
        if let charger { return charger }
        guard let sessionID, let current = self.sessionID else { return targetChargerID }
        return haveSameBytes(sessionID, current) ? targetChargerID : nil
    }
}
