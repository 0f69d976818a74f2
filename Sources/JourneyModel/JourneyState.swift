/// The driver's position on the way from the charger to the merchant. Raw values are the spelling on the wire
/// (contract, section 1).
public enum JourneyState: String, Hashable, Sendable, CaseIterable {
    case idle = "IDLE"
    case nearCharger = "NEAR_CHARGER"
    case anchored = "ANCHORED"
    case sessionActive = "SESSION_ACTIVE"
    case inTransit = "IN_TRANSIT"
    case atMerchant = "AT_MERCHANT"
    case sessionEnded = "SESSION_ENDED"
}
