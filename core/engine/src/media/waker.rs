// SPDX-License-Identifier: GPL-3.0-or-later
//! The event descriptor that wakes the application.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{eventfd, EventfdFlags};

use crate::watchdog::Pulse;

/// The application may leave events alone for this long.
const LIMIT: Duration = Duration::from_secs(2);

/// An eventfd: readable from the first wake until it is drained.
#[derive(Debug)]
pub(crate) struct Waker {
    fd: OwnedFd,
    /// Of whoever drains.
    pulse: Arc<Pulse>,
}

impl Waker {
    pub(crate) fn new() -> io::Result<Waker> {
        let fd = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(Waker { fd, pulse: Pulse::new("application", LIMIT) })
    }

    pub(crate) fn pulse(&self) -> &Arc<Pulse> {
        &self.pulse
    }

    pub(crate) fn wake(&self) {
        self.pulse.begun();
        // It can only fail when the counter is at its limit: then it is readable anyway.
        let _ = rustix::io::write(&self.fd, &1u64.to_ne_bytes());
    }

    pub(crate) fn drain(&self) {
        let mut count = [0; 8];
        // Nothing to read is no error worth telling.
        let _ = rustix::io::read(&self.fd, &mut count);
        // After that: who wakes meanwhile makes it readable again, and it is drained once more.
        self.pulse.rest();
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
