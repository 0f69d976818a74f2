// Tests how many connections the server permits, given the process's limit on descriptors.

import Testing

@testable import App

struct DescriptorLimitTests {
    @Test func `all connections are served if there are enough descriptors`() {
        #expect(DescriptorLimit.connections(permittedBy: 10_512, atMost: 10_000) == 10_000)
        #expect(DescriptorLimit.connections(permittedBy: .max, atMost: 1_000_000) == 1_000_000)
    }

    @Test func `descriptors are left for the rest of the process`() {
        #expect(DescriptorLimit.connections(permittedBy: 10_511, atMost: 10_000) == 9_999)
        #expect(DescriptorLimit.connections(permittedBy: 4_096, atMost: 10_000) == 3_584)
        #expect(DescriptorLimit.connections(permittedBy: 256, atMost: 10_000) == 128)
        #expect(DescriptorLimit.connections(permittedBy: 0, atMost: 10_000) == 1)
    }
}
