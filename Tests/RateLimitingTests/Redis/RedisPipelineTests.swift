// Tests the order of calls and replies of one connection, without a socket.

import Sockets
import Synchronization
import Testing

@testable import RateLimiting

@Suite(.timeLimit(.minutes(1)))
struct RedisPipelineTests {
    private let pipeline = RedisPipeline()

    private func commands(_ count: Int) -> RedisCommands {
        var commands = RedisCommands()
        for _ in 0..<count { commands.append(["PING"]) }
        return commands
    }

    /// Starts a call and returns once the pipeline has its commands.
    private func begin(_ count: Int, until deadline: Deadline = .never) async -> Task<[RedisReply]?, Never> {
        let call = Task { [pipeline, commands] in await pipeline.call(commands(count), until: deadline) }
        #expect(await pipeline.nextBytes() == commands(count).bytes)
        return call
    }

    @Test func repliesGoToTheCallsInTheirOrder() async {
        let first = await begin(2)
        let second = await begin(1)
        #expect(pipeline.deliver([.integer(1)]).unasked == 0)
        #expect(pipeline.deliver([.integer(2), .integer(3)]).unasked == 0)
        #expect(await first.value == [.integer(1), .integer(2)])
        #expect(await second.value == [.integer(3)])
        #expect(pipeline.firstDeadline == nil)
    }

    @Test func repliesToPostedCommandsGoToTheirCompletion() async {
        let received = Mutex<[[RedisReply]]>([])
        func post(_ count: Int) {
            pipeline.post(commands(count), until: .never) { replies in received.withLock { $0.append(replies) } }
        }
        post(2)
        pipeline.post(commands(1), until: .never)
        post(1)
        #expect(pipeline.deliver([.integer(1)]).error == nil)
        #expect(received.withLock { $0 } == [])
        #expect(pipeline.deliver([.integer(2), .integer(3), .error("OOM")]).error == "OOM")
        #expect(received.withLock { $0 } == [[.integer(1), .integer(2)], [.error("OOM")]])
        post(1)
        #expect(pipeline.end())
        #expect(received.withLock { $0.count } == 2)
    }

    @Test func replyThatNobodyAskedForIsNoticed() async {
        let call = await begin(1)
        #expect(pipeline.deliver([.integer(1), .integer(2)]).unasked == 1)
        #expect(await call.value == [.integer(1)])
    }

    @Test func endGivesEachCallWhatItHasAndTakesNoMore() async {
        let first = await begin(3)
        let second = await begin(1)
        _ = pipeline.deliver([.integer(1)])
        #expect(pipeline.end())
        #expect(await first.value == [.integer(1)])
        #expect(await second.value == [])
        #expect(pipeline.deliver([.integer(2), .integer(3)]).unasked == 0)
        #expect(await pipeline.call(commands(1), until: .never) == nil)
        #expect(!pipeline.post(commands(1), until: .never))
        #expect(await pipeline.nextBytes() == nil)
        #expect(!pipeline.end(), "nobody is waiting any more")
    }

    @Test func cancelledCallEndsAtOnceAndItsReplyGoesToNobody() async {
        let first = await begin(2)
        let second = await begin(1)
        _ = pipeline.deliver([.integer(1)])
        first.cancel()
        #expect(await first.value == nil)
        #expect(pipeline.firstDeadline != nil, "Redis still owes the answer")
        let delivery = pipeline.deliver([.error("NOSCRIPT"), .integer(3)])
        #expect(delivery.unasked == 0 && delivery.error == nil)
        #expect(await second.value == [.integer(3)])
        #expect(pipeline.firstDeadline == nil)
    }

    @Test func callOfACancelledTaskSendsNothing() async {
        let call = Task { [pipeline, commands] in
            withUnsafeCurrentTask { $0?.cancel() }
            return await pipeline.call(commands(1), until: .never)
        }
        #expect(await call.value == nil)
        #expect(await begin(2).isCancelled == false)
        pipeline.end()
    }

    @Test func endWakesTheWriter() async {
        let writer = Task { [pipeline] in await pipeline.nextBytes() }
        pipeline.end()
        #expect(await writer.value == nil)
    }

    @Test func callsBeyondTheBoundAreNotTaken() async {
        #expect(pipeline.post(commands(RedisPipeline.commandsWaitingMax), until: .never))
        #expect(!pipeline.post(commands(1), until: .never))
        #expect(await pipeline.call(commands(1), until: .never) == nil)
        _ = pipeline.deliver([.status("PONG")])
        #expect(pipeline.post(commands(1), until: .never))
    }

    @Test func errorReplyToNobodyIsReported() async {
        pipeline.post(commands(2), until: .never)
        #expect(pipeline.deliver([.error("OOM no"), .integer(1)]).error == "OOM no")
        let call = await beginAfterPost()
        #expect(pipeline.deliver([.error("ERR x")]).error == nil, "its caller sees it")
        #expect(await call.value == [.error("ERR x")])
    }

    private func beginAfterPost() async -> Task<[RedisReply]?, Never> {
        #expect(await pipeline.nextBytes() == commands(2).bytes)
        return await begin(1)
    }

    @Test func firstDeadlineIsThatOfTheOldestCall() async {
        let (early, late) = (Deadline.inMilliseconds(10), Deadline.inMilliseconds(20))
        let first = await begin(1, until: early)
        let second = await begin(1, until: late)
        #expect(pipeline.firstDeadline == early)
        _ = pipeline.deliver([.null])
        #expect(pipeline.firstDeadline == late)
        pipeline.end()
        _ = await (first.value, second.value)
    }
}
