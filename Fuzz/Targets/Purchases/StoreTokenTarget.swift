// Any bytes as a token of the App Store and as certificates. Nobody but Apple can make one that is accepted, so none is; what
// is read on the way has to be what was sent.
//
// Input: the first byte is C for certificates: then each is two bytes of length and DER, and Apple's root follows as the
// third. Anything else is the text of a token.

import Crypto
import Identity
import JourneyModel
import Purchases

func fuzzStoreToken(_ input: [UInt8]) async throws(Finding) {
    if input.first == UInt8(ascii: "C") {
        let chain = certificates(in: input.dropFirst()) + [AppleRootCertificate.g3]
        let time = Moment(millisecondsSinceEpoch: 1_793_491_200_000)
        let isAccepted = (try? await CertificateChain().leafKey(of: chain, at: time)) != nil
        try require(!isAccepted, "A chain that Apple did not sign.")
        return
    }
    let text = String(decoding: input, as: UTF8.self)
    guard let signed = try? SignedPayload(text) else { return }
    try require(text.utf8.count <= SignedPayload.bytesMax, "Accepted, and longer than the limit.")
    let input = String(decoding: signed.jws.signingInput, as: UTF8.self)
    try require(input + "." + Base64URL.text(of: signed.jws.signature) == text, "Parts that are not the whole.")
    let parts = text.split(separator: ".")
    try require(parts.count == 3 && Base64URL.text(of: signed.payload) == parts[1], "Another payload.")
    if let certificates = try? signed.certificates() {
        try require(certificates.count == 3 && certificates.allSatisfy { !$0.isEmpty }, "Not three certificates.")
        try require(signed.jws.header["alg"] == .string("ES256"), "Another algorithm.")
    }
    try require(!signed.isSigned(by: key), "A signature by a key that has signed nothing.")
    let verifier = AppStoreVerifier(apps: [AppStoreApp(bundleID: "com.example.dwell", appleID: 1)])
    let isAccepted = (try? await verifier.transaction(text, now: signed.signedDate)) != nil
    try require(!isAccepted, "A token that Apple did not sign.")
}

private let key = P256.Signing.PrivateKey().publicKey

private func certificates(in input: ArraySlice<UInt8>) -> [[UInt8]] {
    var rest = input
    var certificates: [[UInt8]] = []
    while certificates.count < 4, rest.count >= 2 {
        let length = Int(rest.removeFirst()) << 8 | Int(rest.removeFirst())
        certificates.append(Array(rest.prefix(length)))
        rest = rest.dropFirst(length)
    }
    return certificates
}
