/// The eight parameters of the session engine on the phone (contract, section 2). The values must be in the ranges that
/// `Settings.declarations` lists.
public struct Settings: Hashable, Sendable {
    public var chargerIntentRadiusMeters: Double
    public var chargerAnchorRadiusMeters: Double
    public var chargerDwellSeconds: Int
    public var merchantUnlockRadiusMeters: Double
    public var gracePeriodSeconds: Int
    public var hardTimeoutSeconds: Int
    public var locationAccuracyThresholdMeters: Double
    public var speedThresholdForDwellMetersPerSecond: Double

    public init(
        chargerIntentRadiusMeters: Double = 400, chargerAnchorRadiusMeters: Double = 30,
        chargerDwellSeconds: Int = 120, merchantUnlockRadiusMeters: Double = 40, gracePeriodSeconds: Int = 900,
        hardTimeoutSeconds: Int = 3600, locationAccuracyThresholdMeters: Double = 50,
        speedThresholdForDwellMetersPerSecond: Double = 1.5
    ) {
        self.chargerIntentRadiusMeters = chargerIntentRadiusMeters
        self.chargerAnchorRadiusMeters = chargerAnchorRadiusMeters
        self.chargerDwellSeconds = chargerDwellSeconds
        self.merchantUnlockRadiusMeters = merchantUnlockRadiusMeters
        self.gracePeriodSeconds = gracePeriodSeconds
        self.hardTimeoutSeconds = hardTimeoutSeconds
        self.locationAccuracyThresholdMeters = locationAccuracyThresholdMeters
        self.speedThresholdForDwellMetersPerSecond = speedThresholdForDwellMetersPerSecond
    }
}
