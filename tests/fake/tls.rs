//! TLS in front of the fake API server, with a certificate made on the spot.

use axum::serve::Listener;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::server::TlsStream;

/// A certificate and what serves it.
pub struct Identity {
    /// The certificate, which is its own authority.
    pub pem: String,
    acceptor: TlsAcceptor,
}

impl Identity {
    /// For these names; already expired on request.
    pub fn new(names: &[&str], expired: bool) -> Self {
        let names: Vec<String> = names.iter().map(|n| (*n).to_owned()).collect();
        let mut params = rcgen::CertificateParams::new(names).unwrap();
        if expired {
            params.not_after = rcgen::date_time_ymd(2020, 1, 1);
        }
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        let private = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], private)
            .unwrap();
        Self {
            pem: certificate.pem(),
            acceptor: TlsAcceptor::from(Arc::new(config)),
        }
    }

    /// A listener that speaks TLS only.
    pub fn listen(&self, tcp: TcpListener) -> TlsListener {
        TlsListener {
            tcp,
            acceptor: self.acceptor.clone(),
        }
    }
}

/// Accepts TLS connections; failed handshakes are passed over.
pub struct TlsListener {
    tcp: TcpListener,
    acceptor: TlsAcceptor,
}

impl Listener for TlsListener {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            if let Ok((tcp, from)) = self.tcp.accept().await
                && let Ok(tls) = self.acceptor.accept(tcp).await
            {
                return (tls, from);
            }
        }
    }

    fn local_addr(&self) -> std::io::Result<Self::Addr> {
        self.tcp.local_addr()
    }
}
