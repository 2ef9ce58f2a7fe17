//! One proxied connection: requests up, replies down, and the faults between them. A replica that
//! copies its master is only held up and cut: what it sends and gets are no requests and replies.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::watch;

use super::frames::{Frames, Packet, deliver};
use super::resp::command_name;
use super::rules::Then;
use super::shared::{Cut, Shared};

/// What is to come down for a request that went up.
enum Slot {
    Reply {
        delay: Duration,
    },
    Lost,
    CutInstead(Cut),
    Replaced(Vec<u8>),
    /// Not a reply of the server: it need not be waited for.
    Scripted(Vec<u8>, Option<Cut>),
}

/// Runs until one side has closed and all that it sent is delivered, or until a cut.
pub async fn serve(shared: &Shared, mut client: TcpStream, upstream: SocketAddr) {
    let mut cut = shared.cut.subscribe();
    shared.open.fetch_add(1, Ordering::SeqCst);
    let end = tokio::select! {
        end = exchange(shared, &mut client, upstream) => end,
        end = ordered_cut(&mut cut) => end,
    };
    if end == Cut::Rst {
        let _ = client.set_zero_linger();
    }
    drop(client);
    shared.open.fetch_sub(1, Ordering::SeqCst);
}

async fn ordered_cut(cut: &mut watch::Receiver<Cut>) -> Cut {
    let _ = cut.changed().await;
    *cut.borrow()
}

async fn exchange(shared: &Shared, client: &mut TcpStream, upstream: SocketAddr) -> Cut {
    let Ok(mut server) = TcpStream::connect(upstream).await else { return Cut::Rst };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (from_client, to_client) = client.split();
    let (from_server, to_server) = server.split();
    let (slots, expected) = unbounded_channel();
    let (up, up_queue) = unbounded_channel();
    let (down, down_queue) = unbounded_channel();
    let is_copy = AtomicBool::new(false);
    let upward = async {
        let requests = requests(shared, Frames::new(from_client, &is_copy), &slots, up, &is_copy);
        tokio::try_join!(requests, deliver(up_queue, to_server, shared))
    };
    let downward = async {
        let replies = replies(shared, Frames::new(from_server, &is_copy), expected, down, &is_copy);
        tokio::try_join!(replies, deliver(down_queue, to_client, shared))
    };
    let end = tokio::select! {
        end = upward => end,
        end = downward => end,
    };
    end.err().unwrap_or(Cut::Fin)
}

/// Takes `up` by value: its end tells the delivery that nothing follows.
async fn requests(
    shared: &Shared,
    mut frames: Frames<'_>,
    slots: &UnboundedSender<Slot>,
    up: UnboundedSender<Packet>,
    is_copy: &AtomicBool,
) -> Result<(), Cut> {
    let mut silent = false;
    while let Some(request) = frames.next().await {
        if is_copy.load(Ordering::Relaxed) || command_name(&request) == "PSYNC" {
            is_copy.store(true, Ordering::Relaxed);
            let _ = up.send(Packet::new(request, Duration::ZERO));
            continue;
        }
        shared.names().push(command_name(&request));
        let (then, mut delay, lost) = {
            let mut rules = shared.rules();
            (rules.trigger(&request), rules.request_delay, rules.lose_requests)
        };
        silent |= lost || matches!(then, Some(Then::LoseRequest));
        if silent {
            continue;
        }
        let slot = match then {
            None | Some(Then::LoseRequest) => Slot::Reply { delay: Duration::ZERO },
            Some(Then::LoseReply) => Slot::Lost,
            Some(Then::CutRequest) => return Err(Cut::Fin),
            Some(Then::CutReply) => Slot::CutInstead(Cut::Fin),
            Some(Then::ResetReply) => Slot::CutInstead(Cut::Rst),
            Some(Then::Answer(bytes)) => Slot::Scripted(bytes, None),
            Some(Then::AnswerAndCut(bytes)) => Slot::Scripted(bytes, Some(Cut::Fin)),
            Some(Then::Replace(bytes)) => Slot::Replaced(bytes),
            Some(Then::DelayReply(delay)) => Slot::Reply { delay },
            Some(Then::DelayRequest(extra)) => {
                delay += extra;
                Slot::Reply { delay: Duration::ZERO }
            }
            Some(Then::Call(action)) => {
                action();
                Slot::Reply { delay: Duration::ZERO }
            }
        };
        let forwarded = !matches!(slot, Slot::Scripted(..));
        // The slot first: its reply must not overtake it.
        let _ = slots.send(slot);
        if forwarded {
            let _ = up.send(Packet::new(request, delay));
        }
    }
    Ok(())
}

async fn replies(
    shared: &Shared,
    mut frames: Frames<'_>,
    mut slots: UnboundedReceiver<Slot>,
    down: UnboundedSender<Packet>,
    is_copy: &AtomicBool,
) -> Result<(), Cut> {
    let mut expected = VecDeque::new();
    let mut silent = false;
    loop {
        while let Some(Slot::Scripted(..)) = expected.front() {
            let Some(Slot::Scripted(bytes, end)) = expected.pop_front() else { break };
            let delay = shared.rules().reply_delay;
            if !silent {
                let packet = end.map_or_else(
                    || Packet::new(bytes.clone(), delay),
                    |end| Packet::last(bytes.clone(), end),
                );
                let _ = down.send(packet);
            }
        }
        let reply = tokio::select! {
            biased;
            Some(slot) = slots.recv() => {
                expected.push_back(slot);
                continue;
            }
            reply = frames.next() => reply,
        };
        let Some(reply) = reply else { return Ok(()) };
        if is_copy.load(Ordering::Relaxed) {
            let _ = down.send(Packet::new(reply, Duration::ZERO));
            continue;
        }
        // A push of RESP3, or a message of a subscription, answers no request.
        let unasked = reply.first() == Some(&b'>') || expected.is_empty();
        let slot = if unasked { None } else { expected.pop_front() };
        let (lost, delay) = {
            let mut rules = shared.rules();
            (!silent && rules.loses_reply(), rules.reply_delay)
        };
        silent |= lost || matches!(slot, Some(Slot::Lost));
        let (bytes, extra) = match slot {
            Some(Slot::CutInstead(cut)) if !silent => return Err(cut),
            Some(Slot::Replaced(bytes)) => (bytes, Duration::ZERO),
            Some(Slot::Reply { delay }) => (reply, delay),
            _ => (reply, Duration::ZERO),
        };
        if !silent {
            let _ = down.send(Packet::new(bytes, delay + extra));
        }
    }
}
