// Runs every parser that reads client bytes on its most expensive inputs, at two lengths. scripts/parser-work counts
// the instructions of each run with callgrind. The script fails if a parser needs too many instructions per byte, or if
// twice the bytes need much more than twice the instructions.
//
// This program starts no Swift tasks, because valgrind 3.19 does not support the threads that run them.
//
//   ParserWork     prints the name and the number of bytes of each run; callgrind writes its counts in this order

import Foundation
import Marks

@main
struct ParserWork {
    /// The two lengths of an input. They are so large that the constant cost of a call hardly matters. Both are below
    /// the smallest limit of the parsers, which is that of the request line.
    static let shortBytes = 3_000
    static let longBytes = 6_000

    static func main() {
        for input in AdversarialInput.all {
            for count in [shortBytes, longBytes] {
                let bytes = input.bytes(count)
                // Parse once before counting, because the first call also creates values that later calls reuse. This
                // extra work must not be counted.
                input.parse(bytes)
                work_begins()
                input.parse(bytes)
                work_ends()
                print(input.name, bytes.count)
            }
        }
    }
}
