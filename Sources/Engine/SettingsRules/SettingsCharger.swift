// The charger by which the settings of an event are chosen, where rules give some chargers other settings (contract,
// section 2). Every store uses this rule, so that all of them fold an event with the same time limits.

package import JourneyModel

extension Journey {
    /// Returns the charger that chooses an event's settings: the one with which the event's session was registered, else
    /// the event's own. Without either, returns the target charger of this journey, which is the one before the event;
    /// but nil if the event names another session than the one in progress.
    package func settingsCharger(registered: String?, event charger: String?, sessionID: String?) -> String? {
        if let registered { return registered }
        if let charger { return charger }
        guard let sessionID, let current = self.sessionID else { return targetChargerID }
        return haveSameBytes(sessionID, current) ? targetChargerID : nil
    }
}
