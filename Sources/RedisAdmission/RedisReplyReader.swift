// hiredis's reply reader as a Swift value source: bytes in, replies out. The lowest layer: the only file that
// touches C, and it knows neither sockets nor commands.
//
// hiredis builds a reply through callbacks. Ours make `Node`s: the root is retained for hiredis, those of arrays within
// belong to their parents. hiredis hands the root to `freeObject` when it gives up on a reply, else it comes out of
// `redisReaderGetReply` and is ours to release.

internal import CHiredis

enum RedisReply: Hashable, Sendable {
    case status(String)
    /// Begins with a word in capitals that says what kind it is: "READONLY ...".
    case error(String)
    case integer(Int64)
    case string(String)
    case null
    case array([RedisReply])
}

/// The stream is no RESP, or no reply that this client asks for is so long; nothing after it can be trusted.
struct RedisProtocolError: Error, Hashable {}

final class RedisReplyReader {
    private let reader: UnsafeMutablePointer<redisReader>

    /// The longest reply to expect is four integers, or one line of error.
    static let replyBytesMax = 64 * 1024
    static let elementsMax = 64

    init() throws(RedisProtocolError) {
        guard let reader = redisReaderCreateWithFunctions(ReplyFunctions.pointer) else { throw RedisProtocolError() }
        self.reader = reader
    }

    deinit {
        redisReaderFree(reader)
    }

    /// Takes more of the stream and returns the replies that are whole now. After a throw the stream is lost.
    func feed(_ bytes: UnsafeRawBufferPointer) throws(RedisProtocolError) -> [RedisReply] {
        if let start = bytes.baseAddress?.assumingMemoryBound(to: CChar.self), !bytes.isEmpty {
            guard redisReaderFeed(reader, start, bytes.count) == REDIS_OK else { throw RedisProtocolError() }
        }
        var replies: [RedisReply] = []
        while true {
            var reply: UnsafeMutableRawPointer?
            guard redisReaderGetReply(reader, &reply) == REDIS_OK else { throw RedisProtocolError() }
            guard let reply else { break }
            replies.append(Unmanaged<Node>.fromOpaque(reply).takeRetainedValue().whole)
        }
        guard reader.pointee.len - reader.pointee.pos <= Self.replyBytesMax else { throw RedisProtocolError() }
        return replies
    }
}

/// A reply being built. Only the root and arrays have one: whatever else an array has is in it.
private final class Node {
    private var reply: RedisReply
    /// Of an array: its elements, and its arrays, each at its place among them.
    private var elements: [RedisReply] = []
    private var arrays: [(place: Int, node: Node)] = []

    private init(_ reply: RedisReply, elementCount: Int) {
        self.reply = reply
        elements.reserveCapacity(elementCount)
    }

    /// No deeper than hiredis reads, 7 levels.
    var whole: RedisReply {
        guard case .array = reply else { return reply }
        for array in arrays { elements[array.place] = array.node.whole }
        return .array(elements)
    }

    /// What hiredis holds for it: the root is owned by hiredis, an array within by its parent. For anything else hiredis
    /// wants an address, and does nothing with it: it is its array's.
    static func make(
        _ reply: RedisReply, elementCount: Int = 0, _ task: UnsafePointer<redisReadTask>?
    ) -> UnsafeMutableRawPointer? {
        guard let holder = task?.pointee.parent?.pointee.obj else {
            return Unmanaged.passRetained(Node(reply, elementCount: elementCount)).toOpaque()
        }
        let parent = Unmanaged<Node>.fromOpaque(holder).takeUnretainedValue()
        guard case .array = parent.reply else { return nil }
        parent.elements.append(reply)
        guard case .array = reply else { return holder }
        let node = Node(reply, elementCount: elementCount)
        parent.arrays.append((parent.elements.count - 1, node))
        return Unmanaged.passUnretained(node).toOpaque()
    }
}

private enum ReplyFunctions {
    /// Safe to share: written once, before anybody has it, and only read from then on.
    nonisolated(unsafe) static let pointer: UnsafeMutablePointer<redisReplyObjectFunctions> = {
        let pointer = UnsafeMutablePointer<redisReplyObjectFunctions>.allocate(capacity: 1)
        pointer.initialize(
            to: redisReplyObjectFunctions(
                createString: { task, bytes, count in
                    let text = String(decoding: UnsafeRawBufferPointer(start: bytes, count: count), as: UTF8.self)
                    return switch task?.pointee.type {
                    case REDIS_REPLY_STATUS: Node.make(.status(text), task)
                    case REDIS_REPLY_ERROR: Node.make(.error(text), task)
                    default: Node.make(.string(text), task)
                    }
                },
                // A null answer is taken for want of memory and ends the stream: an array of a billion is no reply.
                createArray: { task, count in
                    (0...RedisReplyReader.elementsMax).contains(Int(count))
                        ? Node.make(.array([]), elementCount: Int(count), task) : nil
                },
                createInteger: { task, integer in Node.make(.integer(Int64(integer)), task) },
                createNil: { task in Node.make(.null, task) },
                freeObject: { node in if let node { Unmanaged<Node>.fromOpaque(node).release() } }))
        return pointer
    }()
}
