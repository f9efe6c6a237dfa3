// SPDX-License-Identifier: GPL-3.0-or-later
//! SIP and media engine of voicecore.

mod config;
mod config_dialogs;
mod config_network;
mod config_signal;
mod dtmf;
mod engine;
mod engine_background;
mod engine_calls;
mod engine_dialog;
mod engine_listen;
mod engine_live;
mod engine_srtp;
mod engine_trunks;
mod error;
pub mod events;
mod guard;
mod intake;
mod keys;
pub mod media;
pub mod record;
mod record_name;
pub mod signal;
mod signalling;
pub mod transport;
mod trunk;
mod watchdog;

pub use config::EngineConfig;
pub use dtmf::{DtmfMode, DtmfSource, Key};
pub use engine::{Engine, EngineStats};
pub use engine_calls::DialParams;
pub use engine_trunks::{RegisterParams, TrunkStats, WatchParams};
pub use error::{ConfigError, EngineError, SignallingError, CODES};
pub use guard::{GuardConfig, Network, Unlisted, User, SCANNERS};
pub use intake::{EngineEvent, EventBatch};
pub use pjsip_sys::{Codec, Extension, Policy, TlsConfig};
pub use signalling::{Change, LogLevel, SignalEvent, SrtpMode};
pub use trunk::{check_trunk, TrunkSettings};
pub use watchdog::Stall;
