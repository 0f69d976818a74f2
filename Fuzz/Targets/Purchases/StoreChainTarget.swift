// Reads arbitrary bytes as the certificates of signed App Store data. Only the genuine chain may be accepted.
//
// Input: up to two certificates. Each certificate is two bytes with the length of the DER, followed by the DER. The
// target appends the pinned root.

import JourneyModel
import Purchases

func fuzzStoreChain(_ input: [UInt8]) async throws(Finding) {
    let chain = certificates(in: input[...]) + [FuzzAuthority.chain[2]]
    // Use a new CertificateChain for each input, because a CertificateChain caches the chains that it has accepted.
    let key = try? await CertificateChain(roots: [FuzzAuthority.chain[2]]).leafKey(
        of: chain, at: Moment(millisecondsSinceEpoch: 1_793_491_200_000))
    try require((key != nil) == (chain == FuzzAuthority.chain), "Accepted, and not the genuine chain; or the reverse.")
}

private func certificates(in input: ArraySlice<UInt8>) -> [[UInt8]] {
    var rest = input
    var certificates: [[UInt8]] = []
    while certificates.count < 2, rest.count >= 2 {
        let length = Int(rest.removeFirst()) << 8 | Int(rest.removeFirst())
        certificates.append(Array(rest.prefix(length)))
        rest = rest.dropFirst(length)
    }
    return certificates
}
