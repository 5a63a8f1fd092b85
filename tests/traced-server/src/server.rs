//! The server, and its clients. A request loads four parts at the same time, in spans of one name
//! that overlap, and then renders them.

use std::sync::atomic::{AtomicU64, Ordering};

use axum::Router;
use axum::extract::Path;
use axum::routing::get;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::yield_now;
use tracing::{Dispatch, Instrument, info_span};

/// The number of clients, each with a connection of its own.
const CLIENTS: u64 = 32;

/// The number of the next span.
static NEXT: AtomicU64 = AtomicU64::new(1);

fn number() -> u64 {
    // ORDERING: Relaxed, the number orders nothing.
    NEXT.fetch_add(1, Ordering::Relaxed)
}

async fn load(part: u64) -> u64 {
    let load = async move {
        for _ in 0..=part {
            yield_now().await;
        }
        part
    };
    load.instrument(info_span!("load", number = number(), part))
        .await
}

async fn item(Path(item): Path<u64>) -> String {
    let serve = async move {
        let parts = tokio::join!(load(0), load(1), load(2), load(3));
        let render = info_span!("render", number = number(), item);
        render.in_scope(|| format!("{:08}", item + parts.0 + parts.1 + parts.2 + parts.3))
    };
    serve
        .instrument(info_span!("request", number = number(), item))
        .await
}

/// Serves so many requests, with `dispatch` on all threads.
pub fn serve(requests: u64, dispatch: &Dispatch) {
    let on_start = dispatch.clone();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .on_thread_start(move || {
            // It lives as long as the thread.
            std::mem::forget(tracing::dispatcher::set_default(&on_start));
        })
        .build()
        .expect("tokio's runtime");
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("its address");
        let router = Router::new().route("/item/{item}", get(item));
        tokio::spawn(async move { axum::serve(listener, router).await });
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                tokio::spawn(async move {
                    let mut stream = TcpStream::connect(address).await.expect("a connection");
                    for item in (client..requests).step_by(CLIENTS as usize) {
                        ask(&mut stream, item).await;
                    }
                })
            })
            .collect();
        for client in clients {
            client.await.expect("a client");
        }
    });
}

/// Sends a request, and reads the answer to its end.
async fn ask(stream: &mut TcpStream, item: u64) {
    let request = format!("GET /item/{item} HTTP/1.1\r\nhost: localhost\r\n\r\n");
    stream
        .write_all(request.as_bytes())
        .await
        .expect("the server reads");
    let expected = format!("\r\n\r\n{:08}", item + 6);
    let mut answer = Vec::new();
    while !answer.ends_with(expected.as_bytes()) {
        let mut buffer = [0; 512];
        let count = stream.read(&mut buffer).await.expect("the server answers");
        assert!(count > 0, "the server closed the connection: {answer:?}");
        answer.extend_from_slice(&buffer[..count]);
    }
    assert!(answer.starts_with(b"HTTP/1.1 200 OK"), "{answer:?}");
}
