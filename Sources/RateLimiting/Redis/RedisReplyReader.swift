// Parses bytes into replies, with the reply reader of the C library hiredis. No other file of this module calls
// hiredis. The reader does not depend on sockets or commands.
//
// hiredis calls functions of this file, which build each reply as a tree of `Node`s. A parent node owns the nodes of
// its nested arrays, and hiredis holds a retained reference to the root node.
//
// If hiredis discards an incomplete reply, it passes the root to `freeObject`. Otherwise `redisReaderGetReply` returns
// the root to this file, which then releases the root.

internal import CHiredis

enum RedisReply: Hashable, Sendable {
    case status(String)
    /// An error reply. Its text begins with a word in capitals that names the kind of error: "READONLY ...".
    case error(String)
    case integer(Int64)
    case string(String)
    case null
    case array([RedisReply])
}

/// The stream is not RESP, or a reply is longer than this client expects. Later bytes of the stream cannot be parsed.
struct RedisProtocolError: Error, Hashable {}

final class RedisReplyReader {
    private let reader: UnsafeMutablePointer<redisReader>
    private let replyBytesMax: Int

    /// The size of the replies to expect.
    enum ReplySize {
        /// The replies to all commands except CLUSTER SLOTS: at most 64 KiB, and at most 64 elements per array.
        case small
        /// The reply to CLUSTER SLOTS: at most 4 MiB, because it may list each slot as a separate range.
        case slots

        fileprivate var bytesMax: Int { self == .small ? 64 * 1024 : 4 * 1024 * 1024 }
        fileprivate var elementsMax: Int { self == .small ? 64 : RedisSlots.count }
    }

    init(_ size: ReplySize = .small) throws(RedisProtocolError) {
        guard let reader = redisReaderCreateWithFunctions(ReplyFunctions.pointer) else { throw RedisProtocolError() }
        // The value of this pointer is the maximum number of elements of an array. hiredis passes the pointer to the
        // callbacks, and never dereferences it.
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

/// A reply that is being built. Only the root and arrays have a node. Other elements are stored directly in their
/// array.
private final class Node {
    private var reply: RedisReply
    /// The elements of an array. Its nested arrays are kept in `arrays` until the reply is complete, each with its
    /// index in `elements`.
    private var elements: [RedisReply] = []
    private var arrays: [(index: Int, node: Node)] = []

    private init(_ reply: RedisReply, elementCount: Int) {
        self.reply = reply
        elements.reserveCapacity(min(elementCount, 64))
    }

    /// The complete reply, built by recursion into nested arrays. hiredis reads at most 7 levels of nesting.
    var whole: RedisReply {
        guard case .array = reply else { return reply }
        for array in arrays { elements[array.index] = array.node.whole }
        return .array(elements)
    }

    /// Adds an element, and returns the pointer that hiredis keeps for it. If the element is the root or an array, the
    /// pointer is the address of its node.
    ///
    /// Any other element is stored in its parent and has no node. The pointer is then the parent's address, because
    /// hiredis only checks that the pointer is not null.
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
    /// The callbacks. Threads can share them safely, because they are not changed after their creation.
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
                // For an array with too many elements, such as a billion, return null instead of allocating it. Then
                // hiredis assumes a lack of memory and reports an error.
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
