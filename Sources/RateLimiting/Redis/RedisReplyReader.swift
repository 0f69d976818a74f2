// Parses Redis replies with the C library hiredis. No other file of this module calls hiredis.
//
// The callbacks in `ReplyFunctions` build each reply as a tree of `Node`s. A parent node owns its child nodes. hiredis
// holds a retained reference to the root node.
//
// If hiredis discards an incomplete reply, it calls `freeObject` with the root node. `feed` releases the root node of a
// complete reply.

internal import CHiredis

enum RedisReply: Hashable, Sendable {
    case status(String)
    /// The text begins with the kind of error in capitals: "READONLY ...".
    case error(String)
    case integer(Int64)
    case string(String)
    case null
    case array([RedisReply])
}

/// The stream is not RESP, or a reply is too long. The rest of the stream cannot be parsed.
struct RedisProtocolError: Error, Hashable {}

final class RedisReplyReader {
    private let reader: UnsafeMutablePointer<redisReader>
    private let replyBytesMax: Int

    /// The size of the replies to expect.
    enum ReplySize {
        /// For all commands except CLUSTER SLOTS: at most 64 KiB per reply and 64 elements per array.
        case small
        /// For CLUSTER SLOTS: at most 4 MiB per reply, because a reply may list each slot as a separate range.
        case slots

        fileprivate var bytesMax: Int { self == .small ? 64 * 1024 : 4 * 1024 * 1024 }
        fileprivate var elementsMax: Int { self == .small ? 64 : RedisSlots.count }
    }

    init(_ size: ReplySize = .small) throws(RedisProtocolError) {
        guard let reader = redisReaderCreateWithFunctions(ReplyFunctions.pointer) else { throw RedisProtocolError() }
        // hiredis passes this pointer to the callbacks and never dereferences it. Its value is the maximum number of
        // elements of an array.
        reader.pointee.privdata = UnsafeMutableRawPointer(bitPattern: size.elementsMax)
        self.reader = reader
        replyBytesMax = size.bytesMax
    }

    deinit {
        redisReaderFree(reader)
    }

    /// Parses further bytes of the stream and returns the replies that are now complete. After an error, the reader
    /// cannot be used again.
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
        guard reader.pointee.len - reader.pointee.pos <= replyBytesMax else { throw RedisProtocolError() }
        return replies
    }
}

/// A reply that is being built. The root of a reply and each nested array have a node. Any other element has no node,
/// and is stored in `elements` of the array that contains it.
private final class Node {
    private var reply: RedisReply
    /// The elements of an array. Each nested array is at first an empty array here. `whole` replaces it by the complete
    /// array, which comes from the nested array's node in `arrays`.
    private var elements: [RedisReply] = []
    private var arrays: [(index: Int, node: Node)] = []

    private init(_ reply: RedisReply, elementCount: Int) {
        self.reply = reply
        elements.reserveCapacity(min(elementCount, 64))
    }

    /// The complete reply. The recursion is bounded, because hiredis reads at most 7 levels of nested arrays.
    var whole: RedisReply {
        guard case .array = reply else { return reply }
        for array in arrays { elements[array.index] = array.node.whole }
        return .array(elements)
    }

    /// Adds an element to its parent, and returns the pointer that hiredis keeps for the element. For the root and for
    /// arrays, this is the address of the element's node.
    ///
    /// Other elements have no node. For them, returns the parent's address, because hiredis only checks that the
    /// pointer is not null.
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
    /// The callbacks. Sharing them between threads is safe, because nothing changes them after their creation.
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
                // If an array has too many elements, returns null. hiredis then reports a lack of memory.
                createArray: { task, count in
                    (0...Int(bitPattern: task?.pointee.privdata)).contains(Int(count))
                        ? Node.make(.array([]), elementCount: Int(count), task) : nil
                },
                createInteger: { task, integer in Node.make(.integer(Int64(integer)), task) },
                createNil: { task in Node.make(.null, task) },
                freeObject: { node in if let node { Unmanaged<Node>.fromOpaque(node).release() } }))
        return pointer
    }()
}
