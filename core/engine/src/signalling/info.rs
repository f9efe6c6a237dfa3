// SPDX-License-Identifier: GPL-3.0-or-later
//! Keys by SIP INFO.

use pjsip_sys::{CallId, Endpoint};

use super::calls::Calls;
use super::queue::{LogLevel, SignalEvent};
use crate::dtmf::Key;
use crate::media::now_ns;

impl Calls {
    /// Sends one key. What goes wrong here is told as the status of an answer.
    pub(super) fn info(
        &mut self,
        endpoint: &mut Endpoint,
        id: u64,
        request: u64,
        key: Key,
        duration_ms: u32,
    ) {
        let Some((sip, tenant)) = self.tenant_of(id) else { return };
        if let Err(e) = endpoint.info_dtmf(sip, key.event(), duration_ms, request) {
            tenant.log(LogLevel::Warning, format!("call {id}: INFO: {e}"));
            tenant.tell(SignalEvent::InfoDone { call: id, request, status: 503 });
        }
    }

    /// A key came.
    pub(super) fn dtmf(&self, sip: CallId, event: u8, duration_ms: u32) {
        let Some((id, tenant)) = self.tenant_by(sip) else { return };
        if let Some(key) = Key::from_event(event) {
            let at_ns = now_ns();
            tenant.tell(SignalEvent::Dtmf { call: id, key, duration_ms, at_ns });
        }
    }

    /// An INFO of ours is over.
    pub(super) fn info_done(&self, sip: CallId, request: u64, status: u16) {
        if let Some((id, tenant)) = self.tenant_by(sip) {
            tenant.tell(SignalEvent::InfoDone { call: id, request, status });
        }
    }
}
