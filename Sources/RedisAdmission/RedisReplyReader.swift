// hiredis's reply reader as a Swift value source: bytes in, replies out. The lowest layer: the only file that
// touches C, and it knows neither sockets nor commands.
//
// hiredis builds a reply through callbacks. Ours make `Node`s: the root is retained for hiredis, the others belong
// to their parents. hiredis hands the root to `freeObject` when it gives up on a reply, else it comes out of
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
            replies.append(Unmanaged<Node>.fromOpaque(reply).takeRetainedValue().reply)
        }
        guard reader.pointee.len - reader.pointee.pos <= Self.replyBytesMax else { throw RedisProtocolError() }
        return replies
    }
}

/// A reply being built.
private final class Node {
    enum Content {
        case scalar(RedisReply)
        case array([Node])
    }
    var content: Content

    init(_ content: Content) {
        self.content = content
    }

    /// No deeper than hiredis reads, 7 levels.
    var reply: RedisReply {
        switch content {
        case .scalar(let reply): reply
        case .array(let nodes): .array(nodes.map(\.reply))
        }
    }

    /// The node as hiredis holds it: owned by its parent, or by hiredis when it is the root.
    static func make(_ content: Content, _ task: UnsafePointer<redisReadTask>?) -> UnsafeMutableRawPointer? {
        let node = Node(content)
        guard let parent = task?.pointee.parent?.pointee.obj else { return Unmanaged.passRetained(node).toOpaque() }
        let array = Unmanaged<Node>.fromOpaque(parent).takeUnretainedValue()
        guard case .array(var nodes) = array.content else { return nil }
        nodes.append(node)
        array.content = .array(nodes)
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
                    case REDIS_REPLY_STATUS: Node.make(.scalar(.status(text)), task)
                    case REDIS_REPLY_ERROR: Node.make(.scalar(.error(text)), task)
                    default: Node.make(.scalar(.string(text)), task)
                    }
                },
                // A null answer is taken for want of memory and ends the stream: an array of a billion is no reply.
                createArray: { task, count in
                    (0...RedisReplyReader.elementsMax).contains(Int(count)) ? Node.make(.array([]), task) : nil
                },
                createInteger: { task, integer in Node.make(.scalar(.integer(Int64(integer))), task) },
                createNil: { task in Node.make(.scalar(.null), task) },
                freeObject: { node in if let node { Unmanaged<Node>.fromOpaque(node).release() } }))
        return pointer
    }()
}
