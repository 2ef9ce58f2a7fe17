//! Readers and permits on a real server.

use redlock::{LockError, Redlock, Wait};

use crate::support::{Server, secs, unique_prefix};

async fn client(server: &Server) -> (Redlock, String) {
    let prefix = unique_prefix();
    let client = Redlock::builder().url(server.url()).prefix(&prefix).build().await.unwrap();
    (client, prefix)
}

#[tokio::test]
async fn readers_share_and_exclude_a_writer() {
    let (client, _) = client(Server::shared().await).await;
    let one = client.lock("cfg").read().acquire().await.unwrap();
    let two = client.lock("cfg").read().acquire().await.unwrap();
    assert!(two.fencing_token() > one.fencing_token());
    let error = client.lock("cfg").wait(Wait::Never).acquire().await.unwrap_err();
    let LockError::Timeout { holder, .. } = &error else { panic!("{error}") };
    assert_eq!(holder.as_deref(), Some("readers"));
    let writer = tokio::spawn({
        let client = client.clone();
        async move { client.lock("cfg").wait(secs(20)).acquire().await }
    });
    one.release().await.unwrap();
    two.release().await.unwrap();
    let writer = writer.await.unwrap().unwrap();
    assert!(client.lock("cfg").read().try_acquire().await.unwrap().is_none());
    let reader = tokio::spawn({
        let client = client.clone();
        async move { client.lock("cfg").read().wait(secs(20)).acquire().await }
    });
    writer.release().await.unwrap();
    drop(reader.await.unwrap().unwrap());
}

#[tokio::test]
async fn permits_are_counted() {
    let (client, _) = client(Server::shared().await).await;
    let one = client.lock("import").permits(2).acquire().await.unwrap();
    let two = client.lock("import").permits(2).acquire().await.unwrap();
    assert!(client.lock("import").permits(2).try_acquire().await.unwrap().is_none());
    let third = client.lock("import").permits(3).try_acquire().await.unwrap().unwrap();
    let error = client.lock("import").wait(secs(1)).acquire().await.unwrap_err();
    assert!(error.to_string().contains("held by 3 permits"), "{error}");
    drop(third);
    let waits = tokio::spawn({
        let client = client.clone();
        async move { client.lock("import").permits(2).wait(secs(20)).acquire().await }
    });
    one.release().await.unwrap();
    let four = waits.await.unwrap().unwrap();
    assert!(four.fencing_token() > two.fencing_token());
}

#[tokio::test]
async fn a_writer_becomes_a_reader() {
    let (client, _) = client(Server::shared().await).await;
    let writer = client.lock("cfg").acquire().await.unwrap();
    let token = writer.fencing_token();
    let reader = writer.downgrade().await.unwrap();
    assert!(reader.fencing_token() > token);
    let other = client.lock("cfg").read().acquire().await.unwrap();
    assert!(client.lock("cfg").try_acquire().await.unwrap().is_none());
    reader.release().await.unwrap();
    other.release().await.unwrap();
    drop(client.lock("cfg").try_acquire().await.unwrap().expect("it is free"));
}
