// SPDX-License-Identifier: GPL-3.0-or-later
//! What a call needs before its first message: sockets, our description; and how one is refused.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::{SystemTime, UNIX_EPOCH};

use pjsip_sys::{CallId, Endpoint, MediaDescription, SipError};
use zeroize::Zeroizing;

use super::queue::{LogLevel, SignalEvent};
use super::sdp::{describe, LocalMedia};
use super::srtp::SrtpMode;
use super::{net, Tenant};
use crate::error::{EngineError, SignallingError};
use crate::media::MediaParams;
use crate::record_name::recording_name;
use crate::transport::RtpSockets;

/// Told to callers that are refused for want of room, s.
const RETRY_AFTER_S: u32 = 5;

/// Our side of a call's media.
pub(super) struct Prepared {
    pub(super) sdp: Zeroizing<String>,
    pub(super) recording: Option<PathBuf>,
    pub(super) srtp: SrtpMode,
}

/// Opens the sockets of a call, hands them to the media thread and writes our SDP.
/// `answers`: the peer makes the offer.
pub(super) fn prepare(
    tenant: &Tenant,
    id: u64,
    peer: Option<IpAddr>,
    srtp: SrtpMode,
    answers: bool,
) -> Result<Prepared, EngineError> {
    let config = &tenant.config;
    let sockets = RtpSockets::open(config.bind, config.rtp_ports).map_err(|e| match e.kind() {
        std::io::ErrorKind::AddrInUse => {
            SignallingError::NoRtpPort { first: config.rtp_ports.0, last: config.rtp_ports.1 }
        }
        _ => SignallingError::RtpSocket(e),
    })?;
    let (rtp, rtcp) = (
        sockets.rtp_addr().map_err(SignallingError::RtpSocket)?,
        sockets.rtcp_addr().map_err(SignallingError::RtpSocket)?,
    );
    let address = net::local_towards(config.bind, config.public_address, peer)
        .map_err(SignallingError::RtpSocket)?;
    let now = SystemTime::now();
    let seconds = now.duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    let crypto = srtp.lines().map_err(SignallingError::RtpSocket)?;
    let sdp = describe(&LocalMedia {
        // Unique without telling how many calls there were: seconds since the epoch beside the call id.
        session_id: (seconds << 20) | (id & 0xf_ffff),
        address,
        rtp_port: rtp.port(),
        rtcp_port: rtcp.port(),
        codecs: &config.codecs,
        profile: srtp.profile(),
        crypto: &crypto,
        comfort_noise: config.comfort_noise || answers,
    });
    let recording = config.recording_dir.as_ref().map(|dir| dir.join(recording_name(now, id)));
    match tenant.with_media(|m| m.add_call(id, sockets, recording.clone())) {
        Some(Ok(())) => Ok(Prepared { sdp, recording, srtp }),
        Some(Err(e)) => Err(e.into()),
        None => Err(EngineError::NotRunning),
    }
}

pub(super) fn params(media: &MediaDescription) -> MediaParams {
    MediaParams {
        remote_rtp: media.remote_rtp,
        remote_rtcp: media.remote_rtcp,
        codec: media.codec,
        payload_type: media.payload_type,
        rx_payload_type: media.rx_payload_type,
        telephone_event: media.telephone_event,
        rx_telephone_event: media.rx_telephone_event,
        rtcp: media.rtcp,
        comfort_noise: media.comfort_noise,
        signalling: None,
        ptime_ms: media.ptime_ms,
        direction: media.direction,
    }
}

pub(super) fn refuse(
    endpoint: &mut Endpoint,
    tenant: &Tenant,
    sip: CallId,
    status: u16,
    why: &str,
) {
    tenant.refused.fetch_add(1, Ordering::Relaxed);
    tenant.log(LogLevel::Warning, format!("a call is refused with {status}: {why}"));
    let _ = endpoint.reject(sip, status, Some(RETRY_AFTER_S));
}

pub(super) fn fail(tenant: &Tenant, id: u64, error: &EngineError) {
    tenant.tell(SignalEvent::Failed {
        call: id,
        code: error.code(),
        message: format!("call {id}: {error}"),
        status: status_of(error),
    });
}

pub(super) fn status_of(error: &EngineError) -> u16 {
    match error {
        EngineError::Signalling(SignallingError::Sip(SipError::BadUri(_))) => 416,
        EngineError::Signalling(SignallingError::Sip(SipError::NotReady(_))) => 500,
        _ => 503,
    }
}
