// Tests which values of If-None-Match match an entity tag.

import Testing

@testable import API

struct EntityTagTests {
    @Test(arguments: ["\"v1\"", "W/\"v1\"", "*", "\"v0\", \"v1\"", "\"v0\",W/\"v1\""])
    func matches(_ value: String) {
        #expect(EntityTag.matches([value], "\"v1\""))
    }

    @Test(arguments: ["", "v1", "\"v2\"", "\"v1", "X/\"v1\""])
    func doesNotMatch(_ value: String) {
        #expect(!EntityTag.matches([value], "\"v1\""))
    }
}
