// Runs every parser of client bytes on its most expensive inputs, at two lengths. scripts/parser-work counts the
// instructions of each run with callgrind. It fails if a parser needs too many instructions per byte, or if twice the
// bytes need much more than twice the instructions.
//
// This program starts no Swift tasks, because valgrind 3.19 does not support the threads that run them.
//
//   ParserWork     prints the name and the bytes of each run; callgrind writes the counts of the runs in this order

import Foundation
import Marks

@main
struct ParserWork {
    /// Both lengths are so large that the constant cost of a call hardly matters. Both are below the limit of the
    /// request line, which is the smallest limit of any parser.
    static let shortBytes = 3_000
    static let longBytes = 6_000

    static func main() {
        for input in AdversarialInput.all {
            for count in [shortBytes, longBytes] {
                let bytes = input.bytes(count)
                // Parse once before counting, because the first call also creates values that later calls reuse.
                input.parse(bytes)
                work_begins()
                input.parse(bytes)
                work_ends()
                print(input.name, bytes.count)
            }
        }
    }
}
