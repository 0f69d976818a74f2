// Tests of the JSON in which both stores keep settings.

import Engine
import JourneyModel
import Testing

struct SettingsTextTests {
    @Test func `stored settings are read back, also a value that is written with an exponent`() {
        for settings in [Settings(), Settings(speedThresholdForDwellMetersPerSecond: 0.00005)] {
            #expect(Settings(wireJSON: String(decoding: settings.wireJSON, as: UTF8.self)) == settings)
        }
        #expect(Settings(wireJSON: "{}") == nil)
    }
}
