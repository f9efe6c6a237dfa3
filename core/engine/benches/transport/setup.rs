// SPDX-License-Identifier: GPL-3.0-or-later
//! Short calls as fast as they are answered: INVITE, 200, ACK, BYE, 200, with a bounded number at
//! once, and at most `rate` a second if that is given. Prints how many a second it were.

use std::net::SocketAddr;

use rustix::event::{poll, PollFd, PollFlags, Timespec};

use crate::sip::{Heard, State, Uac};
use crate::{now_ns, Options, Outcome};

/// See the module.
pub fn run(options: &Options) -> Outcome<()> {
    let target: SocketAddr = options.text("target")?.parse()?;
    let calls = options.number("calls", 1000)?;
    let at_once = options.number("at-once", 32)?;
    let rate = options.number("rate", 1_000_000)?;
    // Takes the RTP of all calls and is never read.
    let sink = std::net::UdpSocket::bind("127.0.0.1:0")?;
    let port = sink.local_addr()?.port();
    let mut uac = Uac::new(target, calls)?;
    let (mut placed, mut running) = (0, 0);
    let begin = now_ns();
    let mut repeat_at = begin;
    loop {
        let allowed = (now_ns() - begin) as usize / 1000 * rate / 1_000_000 + 1;
        while placed < calls.min(allowed) && running < at_once {
            uac.invite(placed, port)?;
            placed += 1;
            running += 1;
        }
        if running == 0 && placed == calls {
            break;
        }
        let mut wait = [PollFd::new(uac.socket(), PollFlags::IN)];
        let limit = Timespec { tv_sec: 0, tv_nsec: 5_000_000 };
        poll(&mut wait, Some(&limit))?;
        while let Some(heard) = uac.hear()? {
            match heard {
                Heard::Up(n) => uac.bye(n)?,
                Heard::Over(_) => running -= 1,
                Heard::Other => {}
            }
        }
        let now = now_ns();
        if now > repeat_at {
            repeat_at = now + 100_000_000;
            uac.repeat(|_| port)?;
        }
        if now - begin > 120_000_000_000 + (calls / rate) as u64 * 1_000_000_000 {
            return Err(format!("{running} calls without an end").into());
        }
    }
    let seconds = (now_ns() - begin) as f64 / 1e9;
    println!(
        "{{\"calls\": {}, \"failed\": {}, \"seconds\": {seconds:.3}, \"repeated\": {}}}",
        uac.count(State::Over),
        uac.count(State::Failed),
        uac.repeated
    );
    Ok(())
}
