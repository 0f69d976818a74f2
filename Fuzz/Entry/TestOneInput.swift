// The entry point for libFuzzer. The variable FUZZ_TARGET selects the target. scripts/fuzz builds and runs this
// executable, which is built only if DWELL_FUZZ is set.

import Foundation
import FuzzTargets

private let target: FuzzTarget = {
    let name = ProcessInfo.processInfo.environment["FUZZ_TARGET"] ?? ""
    guard let target = FuzzTarget.all.first(where: { $0.name == name }) else {
        print("FUZZ_TARGET is one of: \(FuzzTarget.all.map(\.name).joined(separator: " "))")
        exit(2)
    }
    return target
}()

/// Runs the target on one input. Aborts if the target throws a finding, so that libFuzzer writes the input to a file.
@_cdecl("LLVMFuzzerTestOneInput")
func testOneInput(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    // Safe: libFuzzer keeps the `count` bytes valid during this call, and they are copied here.
    let input = Array(UnsafeBufferPointer(start: start, count: count))
    do throws(Finding) {
        try target.run(input)
    } catch {
        FileHandle.standardError.write(Data("FINDING \(target.name): \(error)\n".utf8))
        abort()
    }
    return 0
}
