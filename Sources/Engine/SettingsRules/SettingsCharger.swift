// Determines the charger of an event, for the rules that give some chargers other settings (contract, section 2). All
// stores use this function, so they all choose the same time limits for an event.

package import JourneyModel

extension Journey {
    /// Returns the charger that determines an event's settings. `self` is the journey before the event. Returns the
    /// first of these chargers that exists:
    ///
    /// 1. the charger with which the event's session was registered
    /// 2. the charger that the event names
    /// 3. the target charger of this journey; it does not count if the event names one session and the journey is in
    ///    another
    package func settingsCharger(registered: String?, event charger: String?, sessionID: String?) -> String? {
        if let registered { return registered }
        if let charger { return charger }
        guard let sessionID, let current = self.sessionID else { return targetChargerID }
        return haveSameBytes(sessionID, current) ? targetChargerID : nil
    }
}
