//! A connection whose other side must read as well as write. What answers a WebSocket ping waits in memory until it can be
//! sent, and kube puts no bound on it: whoever sends pings and reads nothing would fill this process.

use hyper_util::client::legacy::connect::{Connected, Connection};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bytes that are taken from a side that does not read. A ping of two bytes costs three times as many, so this bounds
/// them at some 50 MB; a container that prints more before it reads its script ends at the limits of an exec.
const MOST: usize = 16 << 20;

/// Ends a connection once its other side has sent [`MOST`] bytes while it took none.
pub(super) struct Mutual<T> {
    inner: T,
    /// Bytes that were read since a write had to wait; None while none does.
    unanswered: Option<usize>,
}

impl<T> Mutual<T> {
    pub(super) fn new(inner: T) -> Self {
        let unanswered = None;
        Self { inner, unanswered }
    }

    fn wrote(&mut self, result: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        self.unanswered = match &result {
            Poll::Pending => Some(self.unanswered.unwrap_or_default()),
            Poll::Ready(_) => None,
        };
        result
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Mutual<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(context, buffer))?;
        if let Some(unanswered) = &mut self.unanswered {
            *unanswered += buffer.filled().len() - before;
            if *unanswered > MOST {
                let why = "the other side sends and does not read";
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::ConnectionAborted, why)));
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Mutual<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.inner).poll_write(context, bytes);
        self.wrote(result)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.inner).poll_write_vectored(context, parts);
        self.wrote(result)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }
}

impl<T: Connection> Connection for Mutual<T> {
    fn connected(&self) -> Connected {
        self.inner.connected()
    }
}
