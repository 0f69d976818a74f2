// A stand-in for APNs under load: HTTP/2 over TLS on 127.0.0.1, 1,000 streams a connection. It answers every request
// with 200 after the given delay, which simulates the round trip to Apple. It creates its certificate, writes the
// certificate to the given file, and prints its port. When its standard input ends, it prints its counts as JSON.
package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"flag"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"
)

var requests, connections, streams, mostStreams int64

func handle(delay time.Duration) http.HandlerFunc {
	return func(answer http.ResponseWriter, request *http.Request) {
		open := atomic.AddInt64(&streams, 1)
		for {
			most := atomic.LoadInt64(&mostStreams)
			if open <= most || atomic.CompareAndSwapInt64(&mostStreams, most, open) {
				break
			}
		}
		io.Copy(io.Discard, request.Body)
		time.Sleep(delay)
		atomic.AddInt64(&requests, 1)
		atomic.AddInt64(&streams, -1)
		answer.Header().Set("apns-id", "EC1BF194-B3B2-424A-89A9-5A918A6E6B5D")
	}
}

func certificate(path string) tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		log.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "localhost"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), DNSNames: []string{"localhost"},
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		log.Fatal(err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	if err := os.WriteFile(path, text, 0o600); err != nil {
		log.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func main() {
	file := flag.String("certificate", "", "the file to write the certificate to")
	delay := flag.Duration("delay", 0, "the time until each answer")
	flag.Parse()
	server := &http.Server{
		Handler:   handle(*delay),
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate(*file)}, NextProtos: []string{"h2"}},
		ConnState: func(_ net.Conn, state http.ConnState) {
			if state == http.StateNew {
				atomic.AddInt64(&connections, 1)
			}
		},
	}
	if err := http2.ConfigureServer(server, &http2.Server{MaxConcurrentStreams: 1000}); err != nil {
		log.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	go func() { log.Fatal(server.ServeTLS(listener, "", "")) }()
	io.Copy(io.Discard, os.Stdin)
	fmt.Printf("{\"requests\":%d,\"connections\":%d,\"most_streams\":%d}\n", requests, connections, mostStreams)
}
