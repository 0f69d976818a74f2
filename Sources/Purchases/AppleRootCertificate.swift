// Apple Root CA - G3, the root of the certificates that sign App Store data
// (https://www.apple.com/certificateauthority/). The root of a chain must equal these bytes. The same name or key is
// not enough.

import Foundation
import SwiftASN1
import X509

package enum AppleRootCertificate {
    /// The certificate in DER, 583 bytes, valid until 2039-04-30. Its SHA-256, as Apple publishes it, is
    /// 63343abfb89a6a03ebb57e9b3f5fa7be7c4f5c756f3017b3a8c488c3653e9179.
    package static let g3 = Array(Data(base64Encoded: base64, options: .ignoreUnknownCharacters) ?? Data())

    /// Returns the DER bytes of a certificate file in PEM or DER. Returns nil for any other file.
    package static func der(of file: [UInt8]) -> [UInt8]? {
        if (try? Certificate(derEncoded: file)) != nil { return file }
        guard let document = try? PEMDocument(pemString: String(decoding: file, as: UTF8.self)),
            (try? Certificate(pemDocument: document)) != nil
        else { return nil }
        return document.derBytes
    }

    private static let base64 = """
        MIICQzCCAcmgAwIBAgIILcX8iNLFS5UwCgYIKoZIzj0EAwMwZzEbMBkGA1UEAwwSQXBwbGUgUm9v
        dCBDQSAtIEczMSYwJAYDVQQLDB1BcHBsZSBDZXJ0aWZpY2F0aW9uIEF1dGhvcml0eTETMBEGA1UE
        CgwKQXBwbGUgSW5jLjELMAkGA1UEBhMCVVMwHhcNMTQwNDMwMTgxOTA2WhcNMzkwNDMwMTgxOTA2
        WjBnMRswGQYDVQQDDBJBcHBsZSBSb290IENBIC0gRzMxJjAkBgNVBAsMHUFwcGxlIENlcnRpZmlj
        YXRpb24gQXV0aG9yaXR5MRMwEQYDVQQKDApBcHBsZSBJbmMuMQswCQYDVQQGEwJVUzB2MBAGByqG
        SM49AgEGBSuBBAAiA2IABJjpLz1AcqTtkyJygRMc3RCV8cWjTnHcFBbZDuWmBSp3ZHtfTjjTuxxE
        tX/1H7YyYl3J6YRbTzBPEVoA/VhYDKX1DyxNB0cTddqXl5dvMVztK517IDvYuVTZXpmkOlEKMaNC
        MEAwHQYDVR0OBBYEFLuw3qFYM4iapIqZ3r6966/ayySrMA8GA1UdEwEB/wQFMAMBAf8wDgYDVR0P
        AQH/BAQDAgEGMAoGCCqGSM49BAMDA2gAMGUCMQCD6cHEFl4aXTQY2e3v9GwOAEZLuN+yRhHFD/3m
        eoyhpmvOwgPUnPWTxnS4at+qIxUCMG1mihDK1A3UT82NQz60imOlM27jbdoXt2QfyFMm+YhidDkL
        F1vLUagM6BgD56KyKA==
        """
}
