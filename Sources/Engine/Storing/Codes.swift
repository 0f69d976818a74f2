// Small integers that stand for states, transitions, reasons and similar values in the database. These codes are part
// of the schema, so no code may be reused.

package import JourneyModel

extension JourneyState {
    package var code: Int64 {
        switch self {
        case .idle: 0
        case .nearCharger: 1
        case .anchored: 2
        case .sessionActive: 3
        case .inTransit: 4
        case .atMerchant: 5
        case .sessionEnded: 6
        }
    }

    /// Returns nil for an unknown code: a newer schema wrote the code, or the code is damaged.
    package init?(code: Int64) {
        switch code {
        case 0: self = .idle
        case 1: self = .nearCharger
        case 2: self = .anchored
        case 3: self = .sessionActive
        case 4: self = .inTransit
        case 5: self = .atMerchant
        case 6: self = .sessionEnded
        default: return nil
        }
    }
}

extension Verdict.Transition {
    package var code: Int64 {
        switch self {
        case .none: 0
        case .applied: 1
        case .rejected: 2
        }
    }

    package init?(code: Int64) {
        guard let transition = Self.allCases.first(where: { $0.code == code }) else { return nil }
        self = transition
    }
}

extension ClockRule {
    package var code: Int64 {
        switch self {
        case .noSendTime: 0
        case .rightClock: 1
        case .sentAt: 2
        case .knownCorrection: 3
        case .firstEvents: 4
        case .recentEventsAgree: 5
        case .loneTimestamp: 6
        case .aheadOfReceipt: 7
        }
    }

    package init?(code: Int64) {
        guard let rule = Self.allCases.first(where: { $0.code == code }) else { return nil }
        self = rule
    }
}

extension Verdict.Reason {
    package var code: Int64 {
        switch self {
        case .notAnchored: 0
        case .notAtMerchant: 1
        case .mustDepartFirst: 2
        case .noSuchTransition: 3
        case .unconfirmed: 4
        }
    }

    package init?(code: Int64) {
        guard let reason = Self.allCases.first(where: { $0.code == code }) else { return nil }
        self = reason
    }
}

extension Journey.Ending {
    package var code: Int64 {
        switch self {
        case .verified: 0
        case .grace: 1
        case .hardTimeout: 2
        case .requested: 3
        case .superseded: 4
        case .reset: 5
        }
    }

    package init?(code: Int64) {
        guard let ending = Self.allCases.first(where: { $0.code == code }) else { return nil }
        self = ending
    }
}

extension ImpliedSteps {
    package var code: Int64 { Int64(rawValue) }

    package init?(code: Int64) {
        guard let bits = UInt8(exactly: code) else { return nil }
        self.init(rawValue: bits)
    }
}
