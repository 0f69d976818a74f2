// libFuzzer's way in. The one executable holds all targets; FUZZ_TARGET names the one to run. It is built only with
// DWELL_FUZZ set, by scripts/fuzz, which is also the place to read how to run it.

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

/// libFuzzer takes an abort for a finding and writes its input to a file.
@_cdecl("LLVMFuzzerTestOneInput")
func testOneInput(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    // Safe: libFuzzer lends `count` bytes for the time of this call, and they are copied.
    let input = Array(UnsafeBufferPointer(start: start, count: count))
    do throws(Finding) {
        try target.run(input)
    } catch {
        FileHandle.standardError.write(Data("FINDING \(target.name): \(error)\n".utf8))
        abort()
    }
    return 0
}
