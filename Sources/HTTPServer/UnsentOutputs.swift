/// The unread output of all connections, in the order in which the peers last read a byte. The peer of the first output
/// has read nothing for the longest time.
struct UnsentOutputs {
    struct Output: Sendable {
        let bytes: Int
        /// Closes the connection, which also frees the output.
        let close: @Sendable () -> Void
    }

    /// The outputs by number. A higher number means that the peer read its last byte later.
    private var outputs: [UInt64: Output] = [:]
    /// A lower bound of the numbers in `outputs`. The search for the first output begins here and passes each number
    /// only once, so it is short on average.
    private var firstNumber: UInt64 = 0
    private var nextNumber: UInt64 = 0
    /// The bytes of all outputs.
    private(set) var bytes = 0

    var isEmpty: Bool { outputs.isEmpty }

    mutating func append(_ output: Output) -> UInt64 {
        let number = nextNumber
        nextNumber += 1
        outputs[number] = output
        bytes += output.bytes
        while outputs[firstNumber] == nil { firstNumber += 1 }
        return number
    }

    /// Removes the output and returns it; nil if it was removed before.
    mutating func remove(_ number: UInt64) -> Output? {
        guard let output = outputs.removeValue(forKey: number) else { return nil }
        bytes -= output.bytes
        return output
    }

    mutating func removeFirst() -> Output? {
        while firstNumber < nextNumber {
            if let output = remove(firstNumber) { return output }
            firstNumber += 1
        }
        return nil
    }
}
