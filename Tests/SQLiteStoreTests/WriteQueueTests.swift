// Tests of the writer's queue. Its length is bounded, it keeps the order, and it does not wake the writer without work.

import Synchronization
import Testing

@testable import SQLiteStore

private struct Piece: QueuedWork, Equatable {
    var name: String
    var requestCount: Int
}

struct WriteQueueTests {
    private let queue = WriteQueue<Piece>(requestsMax: 10)

    @Test func `the first piece wakes the writer, those that follow join the line`() {
        #expect(queue.add(Piece(name: "a", requestCount: 1)) == .wakesWriter)
        #expect(queue.add(Piece(name: "b", requestCount: 1)) == .joinsLine)
        #expect(queue.take(requestsMax: 9).map(\.name) == ["a", "b"])
        #expect(queue.add(Piece(name: "c", requestCount: 1)) == .joinsLine)
        #expect(queue.take(requestsMax: 9).map(\.name) == ["c"])
        #expect(queue.take(requestsMax: 9).isEmpty)
        #expect(queue.add(Piece(name: "d", requestCount: 1)) == .wakesWriter)
    }

    @Test func `a group is bounded by its requests, but a large piece goes alone`() {
        for (name, count) in [("a", 2), ("b", 2), ("c", 5)] {
            _ = queue.add(Piece(name: name, requestCount: count))
        }
        #expect(queue.take(requestsMax: 4).map(\.name) == ["a", "b"])
        #expect(queue.take(requestsMax: 4).map(\.name) == ["c"])
    }

    @Test func `requests beyond the bound are refused until some are taken`() {
        #expect(queue.add(Piece(name: "a", requestCount: 9)) == .wakesWriter)
        #expect(queue.add(Piece(name: "b", requestCount: 2)) == .refused(.full))
        #expect(queue.add(Piece(name: "c", requestCount: 1)) == .joinsLine)
        _ = queue.take(requestsMax: 9)
        #expect(queue.add(Piece(name: "d", requestCount: 9)) == .joinsLine)
    }

    @Test func `closing refuses what comes and waits for what is there`() {
        let drained = Mutex(0)
        _ = queue.add(Piece(name: "a", requestCount: 1))
        queue.close { drained.withLock { $0 += 1 } }
        #expect(queue.add(Piece(name: "b", requestCount: 1)) == .refused(.closed))
        #expect(queue.take(requestsMax: 9).map(\.name) == ["a"])
        #expect(drained.withLock { $0 } == 0)
        #expect(queue.take(requestsMax: 9).isEmpty)
        #expect(drained.withLock { $0 } == 1)
        queue.close { drained.withLock { $0 += 1 } }
        #expect(drained.withLock { $0 } == 2)
    }
}
