//! A server of a test.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Gives these answers to commands, as the protocol encodes both. Returns its port.
pub(super) async fn fake_server(
    answer: impl Fn(&str) -> String + Clone + Send + Sync + 'static,
) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            tokio::spawn(serve(socket, answer.clone()));
        }
    });
    port
}

async fn serve(mut socket: TcpStream, answer: impl Fn(&str) -> String) {
    let mut buffer = [0; 4096];
    while let Ok(length @ 1..) = socket.read(&mut buffer).await {
        let sent = String::from_utf8_lossy(&buffer[..length]);
        let answers: String = sent.split('*').skip(1).map(&answer).collect();
        if socket.write_all(answers.as_bytes()).await.is_err() {
            return;
        }
    }
}
