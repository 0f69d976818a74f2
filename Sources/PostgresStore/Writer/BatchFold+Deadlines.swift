// Adds the expiry of a driver's deadline: the event that is stored when the deadline has passed.

import Engine
import JourneyModel

extension BatchFold {
    mutating func expire(_ request: ExpiryRequest, _ state: inout GroupState) {
        guard var fold = state.fold else {
            state.result.outcomes.append(.expiry(false))
            return
        }
        let running = fold.journey
        var ended = running
        guard let deadline = ended.takeDeadline(before: request.now) else {
            state.result.outcomes.append(.expiry(false))
            return
        }
        guard let settings = settings(ofExpiryOf: running, request, &state),
            isReady(&fold, for: deadline.at, of: state.group, &state.result)
        else { return }
        let expiry = FoldedEvent.expiry(
            deadline, of: running, driver: state.driver, at: request.now, settings: settings,
            settingsVersion: settings.version)
        guard let unsaved = expiry.unsaved, add(expiry.event, unsaved, to: &fold, &state.result) != nil else { return }
        state.fold = fold
        state.result.settings[settings.version] = (settings, request.now)
        state.result.outcomes.append(.expiry(true))
    }

    /// Returns the settings for the expiry of `journey`. Returns nil if the row of the journey's session must be read
    /// first.
    private func settings(
        ofExpiryOf journey: Journey, _ request: ExpiryRequest, _ state: inout GroupState
    ) -> VersionedSettings? {
        guard let rules = request.rules else { return request.settings }
        let choice = rules.choice(for: SettingsSubject(driver: state.driver, appVersion: nil, at: request.now))
        if choice.byCharger.isEmpty { return choice.otherwise }
        guard let sessionID = journey.sessionID else { return choice.settings(charger: journey.targetChargerID) }
        guard let session = reads.sessions[DriverText(state.driver.rawValue, sessionID)] else {
            state.result.need.sessionID = sessionID
            return nil
        }
        return choice.settings(charger: session?.registeredCharger ?? journey.targetChargerID)
    }
}
