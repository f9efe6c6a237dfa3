// SPDX-License-Identifier: GPL-3.0-or-later
//! Events inside of calls for Python, and what Python asks there.

use pyo3::prelude::*;
use voicecore_engine::media::Direction;
use voicecore_engine::{Change, Codec, SignalEvent};

use crate::engine::{event, Told};
use crate::errors::raise_code;
use crate::events::{
    CallHeld, CallResumed, EarlyMedia, OperationDone, PeerReplaced, TransferAsked, TransferProgress,
};

/// The event for Python; the signal back when it is of another kind.
pub fn convert(py: Python<'_>, signal: SignalEvent) -> Result<PyResult<Told<'_>>, SignalEvent> {
    Ok(match signal {
        SignalEvent::EarlyMedia { call, recording } => {
            let recording = recording.map(|p| p.to_string_lossy().into_owned());
            event(py, call, EarlyMedia { recording })
        }
        SignalEvent::Held { call, at_ns } => event(py, call, CallHeld { at_ns }),
        SignalEvent::Resumed { call, at_ns } => event(py, call, CallResumed { at_ns }),
        SignalEvent::Transfer { call, status, last } => {
            event(py, call, TransferProgress { status, last })
        }
        SignalEvent::TransferRequested { call, target } => {
            event(py, call, TransferAsked { target })
        }
        SignalEvent::Replaced { call, sip_call_id, from, source } => {
            event(py, call, PeerReplaced { caller: from, sip_call_id, source })
        }
        SignalEvent::Done { call, operation, status, error } => {
            let (code, message) = match error {
                Some((code, message)) => (Some(code.to_owned()), Some(message)),
                None => (None, None),
            };
            event(
                py,
                call,
                OperationDone { operation: operation.to_owned(), status, code, message },
            )
        }
        other => return Err(other),
    })
}

/// What `Engine.offer` is asked for.
pub fn change(
    py: Python<'_>,
    direction: Option<&str>,
    codecs: Option<&[Codec]>,
) -> PyResult<Change> {
    match (direction, codecs) {
        (Some("sendrecv"), _) => Ok(Change::Direction(Direction::SendRecv)),
        (Some("sendonly"), _) => Ok(Change::Direction(Direction::SendOnly)),
        (Some("recvonly"), _) => Ok(Change::Direction(Direction::RecvOnly)),
        (Some("inactive"), _) => Ok(Change::Direction(Direction::Inactive)),
        (Some(other), _) => Err(raise_code(
            py,
            "sip.bad_argument",
            &format!("direction {other:?}: use sendrecv, sendonly, recvonly or inactive"),
        )),
        (None, Some(codecs)) => Ok(Change::Codecs(codecs.to_vec())),
        (None, None) => Ok(Change::Address),
    }
}
