// Runs every parser that reads client bytes on its most expensive inputs, at two lengths. scripts/parser-work counts
// the instructions of each run with callgrind and compares them: a maximum per byte, and at most twice the work for
// twice the bytes. Without tasks, because valgrind 3.19 does not support Swift's threads.
//
//   ParserWork     a line for each run, in the order of the counts: name and bytes

import Foundation
import Marks

@main
struct ParserWork {
    /// Long enough that what each call costs once does not show, short enough for the smallest limit (a request line).
    static let shortBytes = 3_000
    static let longBytes = 6_000

    static func main() {
        for input in AdversarialInput.all {
            for count in [shortBytes, longBytes] {
                let bytes = input.bytes(count)
                // What is made once for all calls is made here.
                input.parse(bytes)
                work_begins()
                input.parse(bytes)
                work_ends()
                print(input.name, bytes.count)
            }
        }
    }
}
