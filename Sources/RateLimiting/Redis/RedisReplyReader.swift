// hiredis's reply reader for Swift: bytes in, replies out. The lowest layer: the only file that touches C; it knows
// neither sockets nor commands.
//
// hiredis builds a reply through callbacks. Ours make `Node`s: the root is retained for hiredis, nested arrays are
// owned by their parents. hiredis passes the root to `freeObject` when it gives up on a reply; otherwise
// `redisReaderGetReply` returns it, and we release it.

internal import CHiredis

enum RedisReply: Hashable, Sendable {
    case status(String)
    /// Begins with a word in capitals that names its kind: "READONLY ...".
    case error(String)
    case integer(Int64)
    case string(String)
    case null
    case array([RedisReply])
}

/// The stream is not RESP, or a reply is longer than any that this client expects; nothing after it can be trusted.
struct RedisProtocolError: Error, Hashable {}

final class RedisReplyReader {
    private let reader: UnsafeMutablePointer<redisReader>

    /// The longest expected reply is five integers, or one line of error.
    static let replyBytesMax = 64 * 1024
    static let elementsMax = 64

    init() throws(RedisProtocolError) {
        guard let reader = redisReaderCreateWithFunctions(ReplyFunctions.pointer) else { throw RedisProtocolError() }
        self.reader = reader
    }

    deinit {
        redisReaderFree(reader)
    }

    /// Takes more of the stream and returns the replies that are complete now. After a throw the stream is lost.
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

/// A reply being built. Only the root and arrays have a node; other elements are stored in their array.
private final class Node {
    private var reply: RedisReply
    /// For an array: its elements, and its nested arrays, each with its index.
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

    /// Returns the pointer that hiredis holds: the root is owned by hiredis, a nested array by its parent. For
    /// other elements hiredis only needs some address and does nothing with it: they are stored in their array.
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
    /// Safe to share: written once, before it is shared, and only read from then on.
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
                // A null result means out of memory to hiredis and ends the stream: an array of a billion elements
                // is not a reply.
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
