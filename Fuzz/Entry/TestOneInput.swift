// The entry point for libFuzzer. One executable has all targets; FUZZ_TARGET selects the target. This executable is
// built only if DWELL_FUZZ is set. scripts/fuzz sets DWELL_FUZZ and shows how to run the executable.

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

/// Runs the target on one input and aborts at a finding. libFuzzer then writes the input to a file.
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
