//! Goal: a reader of the stream loses no event without being told, whenever it comes back.
use super::*;

/// A reader of the stream that has seen an event of this id.
async fn follow(address: SocketAddr, last_seen: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = format!(
        "GET /api/v1/stream HTTP/1.1\r\nHost: a:1\r\nLast-Event-ID: {last_seen}\r\n{VIEWER}\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream
}

/// What comes until this does.
async fn read_until(stream: &mut TcpStream, word: &str) -> String {
    let mut text = String::new();
    while !text.contains(word) {
        let mut piece = [0; 4096];
        let reading = timeout(Duration::from_secs(10), stream.read(&mut piece));
        let count = reading.await.unwrap().unwrap();
        assert_ne!(count, 0, "{text}");
        text += &String::from_utf8_lossy(&piece[..count]);
    }
    text
}

#[tokio::test]
async fn a_reader_that_comes_back_gets_what_followed_and_hears_what_is_gone() {
    let desk = echo();
    let address = network(Arc::clone(&desk)).await;
    for n in 0..3 {
        desk.events()
            .record(crate::Level::Info, format!("event {n}."));
    }
    let first = desk.events().page(0, 9).events[0].id;
    let mut back = follow(address, &first.to_string()).await;
    let text = read_until(&mut back, "event 2.").await;
    assert!(
        text.contains(&format!("id: {}\nevent: log\n", first + 1)),
        "{text}"
    );
    assert!(
        !text.contains("event 0.") && !text.contains("missed"),
        "{text}"
    );
    for stranger in ["17", "nonsense", &(first + 3).to_string()] {
        let mut back = follow(address, stranger).await;
        let text = read_until(&mut back, "event 2.").await;
        assert!(text.contains("event: missed\n"), "{stranger}: {text}");
        assert!(text.contains("event 0."), "{stranger}: {text}");
    }
    let mut newest = follow(address, &(first + 2).to_string()).await;
    desk.events()
        .record(crate::Level::Info, "event 3.".to_owned());
    let text = read_until(&mut newest, "event 3.").await;
    assert!(
        !text.contains("event 2.") && !text.contains("missed"),
        "{text}"
    );
}
