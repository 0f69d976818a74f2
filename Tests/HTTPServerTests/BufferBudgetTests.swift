// Tests of the memory budget: the share of each client, the share of unread responses, and the order in which unread
// responses are dropped.

import Synchronization
import Testing

@testable import HTTPServer

@Suite struct BufferBudgetTests {
    /// Records which outputs were closed to make room.
    private final class Closed: Sendable {
        private let names = Mutex<[String]>([])
        var all: [String] { names.withLock { $0 } }

        func add(_ name: String) { names.withLock { $0.append(name) } }
    }

    @Test func `an address is the client of requests without a credential, in IPv6 its network`() {
        let client = BufferBudget.client(atAddress:)
        #expect(client("192.0.2.1") == client("::ffff:192.0.2.1"))
        #expect(client("192.0.2.1") != client("192.0.2.2"))
        #expect(client("2001:db8::1") == client("2001:db8::2:3:4:5"))
        #expect(client("2001:db8::1") != client("2001:db8:0:1::1"))
        #expect(client("") == nil)
    }

    @Test func `bytes move between the shares of clients if there is room`() {
        let budget = BufferBudget(bytesMax: 64 << 20)
        let most = budget.bytesPerClientMax
        #expect(budget.take(most, for: nil))
        #expect(budget.move(most, from: nil, to: "address"))
        #expect(!budget.take(1, for: "address"))
        #expect(budget.take(1, for: "driver"))
        #expect(!budget.move(most, from: "address", to: "driver"))
        #expect(budget.bytesHeld(by: "address") == most)
        budget.give(1, for: "driver")
        #expect(budget.move(most, from: "address", to: "driver"))
        #expect(budget.bytesHeld(by: "address") == 0)
        #expect(budget.bytesHeld(by: "driver") == most)
        #expect(budget.bytesHeld == most)
    }

    private let closed = Closed()

    private func take(_ bytes: Int, _ name: String, insteadOf number: UInt64? = nil, of budget: BufferBudget) -> UInt64?
    {
        budget.takeOutput(bytes, insteadOf: number) { [closed] in closed.add(name) }
    }

    @Test func `unread responses have half of the memory, requests can have all of it`() {
        let budget = BufferBudget(bytesMax: 1000)
        #expect(take(250, "a", of: budget) != nil)
        #expect(take(250, "b", of: budget) != nil)
        #expect(closed.all == [])
        #expect(take(250, "c", of: budget) != nil)
        #expect(closed.all == ["a"])
        #expect(budget.bytesHeld == 500)
        #expect(budget.take(500, for: nil))
        #expect(!budget.take(1, for: nil))
        // Requests and responses now hold half of the memory each. A new response still replaces the response that has
        // been unread for the longest time.
        #expect(take(250, "d", of: budget) != nil)
        #expect(closed.all == ["a", "b"])
        budget.give(500, for: nil)
        #expect(budget.bytesHeld == 500)
    }

    @Test func `a peer that takes bytes goes behind those that take none`() throws {
        let budget = BufferBudget(bytesMax: 1000)
        let first = try #require(take(200, "first", of: budget))
        _ = take(200, "second", of: budget)
        let later = try #require(take(200, "first", insteadOf: first, of: budget))
        #expect(budget.bytesHeld == 400)
        _ = take(200, "third", of: budget)
        #expect(closed.all == ["second"])
        budget.giveOutput(later)
        #expect(budget.bytesHeld == 200)
    }

    @Test func `an output that was closed to make room gives nothing back and gets no new number`() throws {
        let budget = BufferBudget(bytesMax: 1000)
        let first = try #require(take(400, "first", of: budget))
        let second = try #require(take(400, "second", of: budget))
        #expect(closed.all == ["first"])
        #expect(take(400, "first", insteadOf: first, of: budget) == nil)
        budget.giveOutput(first)
        #expect(closed.all == ["first"])
        #expect(budget.bytesHeld == 400)
        budget.giveOutput(second)
        budget.giveOutput(second)
        #expect(budget.bytesHeld == 0)
        #expect(budget.outputsDropped == 1)
    }

    @Test func `one response may be larger than the half; none is closed for a response that cannot fit`() {
        let budget = BufferBudget(bytesMax: 1000)
        #expect(take(900, "large", of: budget) != nil)
        #expect(take(1001, "too large", of: budget) == nil)
        #expect(closed.all == [])
        #expect(take(10, "small", of: budget) != nil)
        #expect(closed.all == ["large"])
        #expect(budget.take(900, for: nil))
        #expect(take(200, "no room", of: budget) == nil)
        #expect(closed.all == ["large"])
        #expect(budget.bytesHeld == 910)
        // One output was closed, and two outputs did not fit.
        #expect(budget.outputsDropped == 3)
    }

    @Test func `the order holds when outputs in the middle were taken`() throws {
        let budget = BufferBudget(bytesMax: 2000)
        var numbers: [UInt64] = []
        for index in 0..<10 { numbers.append(try #require(take(100, "\(index)", of: budget))) }
        for index in [0, 1, 4] { budget.giveOutput(numbers[index]) }
        for name in ["a", "b", "c"] { #expect(take(100, name, of: budget) != nil) }
        #expect(closed.all == [])
        #expect(take(300, "d", of: budget) != nil)
        #expect(closed.all == ["2", "3", "5"])
        #expect(budget.bytesHeld == 1000)
    }
}
