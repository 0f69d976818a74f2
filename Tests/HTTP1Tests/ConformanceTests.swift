// Delivers every case of the tables in one piece, byte by byte, and split in two at every position. A long input is
// split at about 110 positions. The outcomes and response bytes must always be those of the table.
//
// If a case is complete, another request is delivered after it. That request is served only if the connection stays
// open after the case.

import HTTP1
import Testing

@Suite struct ConformanceTests {
    static let cases =
        RequestLineCases.all + FieldCases.all + FramingCases.all + PathCases.all + SmugglingCases.all

    @Test(arguments: cases) func whole(_ aCase: ConformanceCase) {
        check(aCase, [aCase.input[...]])
    }

    @Test(arguments: cases) func cutInTwo(_ aCase: ConformanceCase) {
        for cut in cuts(aCase.input.count) {
            check(aCase, [aCase.input[..<cut], aCase.input[cut...]])
        }
    }

    @Test(arguments: cases) func byteByByte(_ aCase: ConformanceCase) {
        check(aCase, aCase.input.indices.map { aCase.input[$0...$0] })
    }

    @Test(arguments: cases) func gluedToTheNext(_ aCase: ConformanceCase) {
        guard aCase.outcomes.last != .incomplete else { return }
        var glued = aCase
        glued.input += bytes("GET /next HTTP/1.1\r\nHost: a\r\n\r\n")
        if aCase.outcomes.last?.goesOn == true { glued.outcomes.append(.served("GET /next")) }
        check(glued, [glued.input[...]])
        check(glued, glued.input.indices.map { glued.input[$0...$0] })
    }

    @Test func noTwoCasesShareAName() {
        let names = Self.cases.map(\.testDescription)
        #expect(Set(names).count == names.count)
    }

    /// Returns the positions at which to split an input. A short input is split at every position. A long input is
    /// split at about 50 evenly spaced positions, and at its last 61 positions, because it reaches a limit there.
    private func cuts(_ count: Int) -> [Int] {
        guard count > 1200 else { return Array(0...count) }
        return Array(stride(from: 0, to: count - 60, by: count / 50)) + Array((count - 60)...count)
    }

    private func check(_ aCase: ConformanceCase, _ pieces: [ArraySlice<UInt8>]) {
        var client = Client()
        client.run(pieces)
        let sizes = pieces.count > 2 ? "byte by byte" : "\(pieces.map(\.count))"
        #expect(client.outcomes == aCase.outcomes, "delivered in pieces of \(sizes)")
        let answers = aCase.outcomes.map(\.answer).joined()
        #expect(String(decoding: client.output, as: UTF8.self) == answers, "delivered in pieces of \(sizes)")
        let end: ServerConnection.Event =
            switch aCase.outcomes.last {
            case .incomplete: .truncated
            case .served, .servedAndKept: .endOfStream
            default: .closed
            }
        #expect(client.lastEvent == end, "delivered in pieces of \(sizes)")
    }
}
