// Runs every parser that reads client bytes on its most expensive inputs, at two lengths. scripts/parser-work counts
// the instructions of each run with callgrind. It checks that a parser does not exceed a maximum number of instructions
// per byte, and that twice the bytes need about twice the instructions. This program uses no tasks, because valgrind
// 3.19 does not support Swift's threads.
//
//   ParserWork     prints the name and the number of bytes of each run; callgrind writes its counts in this order

import Foundation
import Marks

@main
struct ParserWork {
    /// The two lengths of an input. They are so long that the constant cost of a call does not matter. They are shorter
    /// than every limit, so no parser refuses an input because of its length. (The smallest limit is that of the
    /// request line.)
    static let shortBytes = 3_000
    static let longBytes = 6_000

    static func main() {
        for input in AdversarialInput.all {
            for count in [shortBytes, longBytes] {
                let bytes = input.bytes(count)
                // Parse once before counting. The first call also creates values that later calls reuse. This work must
                // not be counted.
                input.parse(bytes)
                work_begins()
                input.parse(bytes)
                work_ends()
                print(input.name, bytes.count)
            }
        }
    }
}
