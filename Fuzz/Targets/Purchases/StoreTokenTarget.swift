// Parses arbitrary bytes as signed App Store data. Certificates and signature are not verified here. Parsing must not
// lose or change anything that is verified or stored afterwards.
//
// Input: the text of a compact JWS.

import Foundation
import Identity
import JourneyModel
import Purchases

func fuzzStoreToken(_ input: [UInt8]) throws(Finding) {
    let text = String(decoding: input, as: UTF8.self)
    guard let signed = try? SignedPayload(text) else { return }
    try require(text.utf8.count <= SignedPayload.bytesMax, "Accepted, and longer than the limit.")
    let signingInput = String(decoding: signed.jws.signingInput, as: UTF8.self)
    try require(signingInput + "." + Base64URL.text(of: signed.jws.signature) == text, "Parts that are not the whole.")
    let parts = text.split(separator: ".")
    try require(parts.count == 3 && Base64URL.text(of: signed.payload) == parts[1], "Another payload.")
    guard let certificates = try? signed.certificates() else { return }
    try require(certificates.count == 3 && certificates.allSatisfy { !$0.isEmpty }, "Not three certificates.")
    try require(signed.jws.header["alg"] == .string("ES256"), "Another algorithm.")
    // The stored proof contains the header as it was sent, so that the token can be verified again.
    if let fact = try? TransactionFact(signed), let proof = fact.proof {
        try require(proof.token(payload: fact.payload) == text, "The stored transaction is not the one sent.")
    }
    if let fact = try? RenewalFact(signed), let proof = fact.proof {
        try require(proof.token(payload: fact.payload) == text, "The stored renewal is not the one sent.")
    }
}
